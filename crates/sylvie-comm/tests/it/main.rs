//! Integration tests: the conformance suites on threads, and what only threads promise.

mod conformance;
mod modelled;
mod threads;
