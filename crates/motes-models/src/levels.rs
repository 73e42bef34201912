//! Kernels at every level of instructions that a processor has, for tests.

/// Evaluates an expression that uses a level's proof, at each level in turn, best first: the levels' words and values.
macro_rules! at_every_level {
    ($simd:ident => $run:expr) => {
        motes::simd::levels()
            .into_iter()
            .map(|(name, level)| {
                use motes::simd::{Level, Simd as _};
                let value = match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512($simd) => $simd.vectorize(
                        #[inline(always)]
                        || $run,
                    ),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2($simd) => $simd.vectorize(
                        #[inline(always)]
                        || $run,
                    ),
                    _ => {
                        let $simd = motes::simd::portable();
                        $run
                    }
                };
                (name, value)
            })
            .collect::<Vec<_>>()
    };
}
pub(crate) use at_every_level;

/// Whether results at a level have the bits of all levels with fused multiply-add.
pub(crate) fn is_fused(level: &str) -> bool {
    level != "portable"
}
