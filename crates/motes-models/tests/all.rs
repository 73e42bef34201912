//! What the models and the algorithms are held against. One binary: each would be linked, and what is generic compiled, by itself.

#![allow(clippy::disallowed_methods)]

mod auto;
mod auto_bed;
mod bed;
mod bnn;
mod bnn_closed_forms;
mod bnn_data;
mod bnn_paper;
mod by_hand;
mod closed_forms;
mod combinations;
mod common;
mod data;
mod edges;
mod features;
mod generator_error;
mod generator_network;
mod generator_peer;
mod generator_published;
mod generator_training;
mod groups;
mod logistic;
mod logistic_truth;
mod mean_field;
mod multinomial;
mod own_model;
#[cfg(feature = "parquet")]
mod parquet;
mod refusals;
mod same_bits;
