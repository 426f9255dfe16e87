//! `sylvie predict`.

use std::io;

use anyhow::{Context as _, Result, ensure};
use npyz::{WriteOptions, WriterBuilder as _};
use sylvie::comm::Communicator as _;
use sylvie::data::shown;
use sylvie::pipeline::{Instruments, predict};

use crate::args::PredictArgs;
use crate::aside::AsideFile;
use crate::clock::SystemClock;
use crate::console::Console;
use crate::evaluate::Trained;
use crate::ranks::RankOptions;
use crate::run_folder::MODEL;
use crate::{aside, ranks};

/// Writes logits of every node.
///
/// # Errors
/// A run or a graph that cannot be used, values that are not finite, a file that cannot be written.
pub(crate) fn run(args: PredictArgs) -> Result<()> {
    let console = Console::for_people();
    let is_model = aside::is_same(&args.out, &args.trained.run.join(MODEL));
    ensure!(!is_model, "{}: is the model itself; take another name for --out", shown(&args.out));
    let mut file = AsideFile::create(&args.out)?;
    let Trained { settings, model, weights, parts, .. } = Trained::load(args.trained, console)?;
    let clock = SystemClock::start();
    let blocks = console.during("predicting", || {
        ranks::run(RankOptions::new(parts.len(), settings.n_threads()), |backend, comm| {
            let instruments = Instruments::clock(&clock);
            predict(backend, comm, (&model, &weights), &parts[comm.rank()], instruments)
        })
    })?;
    let width = model.widths.last().copied().unwrap_or(0).max(1);
    let n_nodes: usize = parts.iter().map(|part| part.graph.n_local()).sum();
    let mut logits = vec![0.0_f32; n_nodes * width];
    for (part, block) in parts.iter().zip(&blocks) {
        for (&id, row) in part.graph.own_ids.iter().zip(block.chunks_exact(width)) {
            logits[id as usize * width..][..width].copy_from_slice(row);
        }
    }
    write(&mut file, &logits, width).with_context(|| shown(&args.out))?;
    file.commit()?;
    console.line(format!("{n_nodes} x {width} logits in {}", shown(&args.out)))
}

fn write(file: &mut AsideFile, logits: &[f32], width: usize) -> io::Result<()> {
    let shape = [(logits.len() / width) as u64, width as u64];
    let options = WriteOptions::new().default_dtype().shape(&shape).writer(file);
    let mut writer = options.begin_nd()?;
    writer.extend(logits)?;
    writer.finish()
}
