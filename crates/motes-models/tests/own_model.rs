//! The example of a model of one's own, whose answers must agree with numerical integration.

#[path = "../examples/own_model.rs"]
mod example;

#[test]
fn both_ways_agree_with_numerical_integration() {
    example::main().unwrap();
}
