//! Assignments, quality figures and parts against brute force.

mod graphs;
mod halo;
mod partitioners;
mod quality;
