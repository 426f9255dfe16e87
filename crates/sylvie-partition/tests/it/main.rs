//! Assignments, quality figures, parts and their folders against brute force.

mod altered;
mod folder;
mod graphs;
mod halo;
mod partitioners;
mod places;
mod quality;
