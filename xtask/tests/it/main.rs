//! The rules of the repository, as tests: layers, manifests, folders and sources.

mod folders;
mod layers;
mod manifests;
mod sources;
mod tree;
