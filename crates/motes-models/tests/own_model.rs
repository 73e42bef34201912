//! The example of a model of one's own, whose answers must agree with numerical integration.

#[path = "../examples/own_model.rs"]
mod own_model;

#[test]
fn both_ways_agree_with_numerical_integration() {
    own_model::main().unwrap();
}
