//! The rules of the repository, as tests: layers, manifests, folders, packages, sources, examples and pages.

mod examples;
mod folders;
mod layers;
mod manifests;
mod markdown;
mod packages;
mod pages;
mod sources;
mod tree;
