//! Files that end too early, at every byte that they could.

use std::fs::{self, OpenOptions};
use std::path::Path;

use sylvie_data::{ReadOptions, read};

use crate::allocations::largest_during;
use crate::mutations::MAX_ALLOCATION;
use crate::samples::Sample;
use crate::{samples, samples_pickle, samples_text};

/// Files up to this size are cut at every byte, larger ones at every so many.
const EVERY_BYTE: usize = 4096;
const STEP: usize = 61;

/// Whether a part of a file can be a whole file too: numbers as text have no end that could be missing.
fn has_no_end(name: &str) -> bool {
    [".csv", ".index", ".mtx"].iter().any(|suffix| name.ends_with(suffix))
}

/// Files that are there because sets have them, and that nothing is read from.
fn is_unread(name: &str) -> bool {
    name.ends_with(".x") || name.starts_with("split/c/")
}

fn cut_everywhere(name: &str, sample: &Sample) {
    let (folder, source) = sample.write();
    for (file, bytes) in sample.files.iter().filter(|(file, _)| !is_unread(file)) {
        let path = match sample.entry {
            "" => Path::new(&source).join(file),
            _ => folder.path().join(file),
        };
        let step = if bytes.len() > EVERY_BYTE { STEP } else { 1 };
        for length in (0..bytes.len()).rev().step_by(step) {
            OpenOptions::new().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
            let (result, largest) = largest_during(|| read(&source, &ReadOptions::default()));
            assert!(largest <= MAX_ALLOCATION, "{name}, {file}, {length}: {largest} bytes at once");
            match result {
                Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
                Ok(dataset) if has_no_end(file) => dataset.check().unwrap(),
                Ok(_) => panic!("{name}: {file} was read with {length} of {} bytes", bytes.len()),
            }
        }
        fs::write(&path, bytes).unwrap();
    }
    read(&source, &ReadOptions::default()).unwrap();
}

#[test]
fn archives_and_arrays() {
    for (name, sample) in samples::all() {
        cut_everywhere(name, &sample);
    }
}

#[test]
fn text_and_pickles() {
    for (name, sample) in samples_text::all() {
        cut_everywhere(name, &sample);
    }
    cut_everywhere("planetoid", &samples_pickle::ring());
}
