//! The real binary, driven from end to end. One binary: each would be linked, and what is generic compiled, by itself.

#![allow(clippy::disallowed_methods)]

mod answers;
mod auto;
mod bnn;
mod common;
mod compare;
mod damaged;
mod docs;
mod files;
mod foreign;
mod frechet;
mod fuzz;
mod generator;
mod groups;
mod killed;
mod killed_commands;
mod logistic;
mod logistic_data;
mod paper;
mod paper_generator;
mod pinned;
mod places;
mod printed;
mod refusals;
mod remembered;
mod replicates;
mod report;
mod same_bits;
mod signals;
mod tables;
mod terminal;
mod unfinished;
mod verdicts;
