//! The models of Motes.
