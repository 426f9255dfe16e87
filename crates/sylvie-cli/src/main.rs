//! Command line of Sylvie
fn main() {}
