//! The rules of the repository, as tests: layers, manifests, folders, sources and pages.

mod folders;
mod layers;
mod manifests;
mod markdown;
mod pages;
mod sources;
mod tree;
