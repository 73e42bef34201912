//! The generator network of the paper: convolutions from 64 latents to a 32 x 32 image.

use super::batch::{Batch, Pass};
use super::decoder::{Decoder, ImageLoss, Mode, Tensor, Wanted};
use super::ends::{LATENTS, OUTPUT_SIZE};
use super::packed::{self, Layout, Packed};
use super::stream::Space;
use super::weights::Weights;
use super::winograd::TOGETHER;
use motes::blocks::{PerWorker, for_each2};
use std::convert::Infallible;

/// The paper's decoder: Linear(64, 1024), BatchNorm, GELU; ConvTranspose(4, 64, 5), BatchNorm, GELU; twice
/// [Conv(64, 64, 5), BatchNorm, GELU, Conv(64, 64, 3), BatchNorm, GELU, plus the input]; ConvTranspose(64, C, 4), tanh.
///
/// Names, shapes and initial distribution of the parameters are PyTorch's. Images are `[channel][row][column]`.
///
/// Own code: on two cores Burn's best backend needs three times PyTorch's time on this network and candle ten times.
///
/// **Biases in front of a batch normalisation.** With the batch's own statistics ([`Mode::Train`]) they change nothing
/// and their gradient is zero. It is written as exactly zero: the rounding noise that other engines leave there would be
/// blown up to full steps by RMSProp and Adam. They stay among the parameters, at their initial values, and the running
/// means are those of values that include them. In [`Mode::Eval`] they matter, and their gradient is as computed.
///
/// **Threads.** A loss is called while its worker's room is lent out, so that it must not itself wait for the thread pool.
pub struct Network {
    channels: usize,
    parameters: Weights,
    statistics: Weights,
    layout: Layout,
    /// For the statistics of a batch; made when it is needed, as the next one.
    plain: Option<Packed>,
    /// With the running statistics folded in.
    folded: Option<Packed>,
    batch: Batch,
    workers: PerWorker<Space>,
    losses: Vec<f64>,
}

impl Network {
    /// A network for images of 1 or 3 channels, with weights drawn by the seed.
    ///
    /// # Panics
    /// If there are no channels.
    pub fn new(channels: usize, seed: u64) -> Self {
        assert!(channels > 0, "an image has at least one channel");
        let parameters = packed::parameters(channels, seed);
        Self {
            channels,
            layout: Layout::new(&parameters),
            parameters,
            statistics: packed::statistics(),
            plain: None,
            folded: None,
            batch: Batch::default(),
            workers: workers(channels),
            losses: Vec::new(),
        }
    }

    fn images(&self, x: &[f32]) -> usize {
        assert_eq!(x.len() % LATENTS, 0, "each image has {LATENTS} latents");
        x.len() / LATENTS
    }

    /// The parameters with the running statistics folded in, and room for each worker.
    fn ready_to_stream(&mut self) -> (&Packed, &PerWorker<Space>, &mut Vec<f64>) {
        self.ready_workers();
        let folded = self.folded.get_or_insert_with(|| Packed::new(self.channels));
        folded.set(&self.layout, &self.parameters.values, Some(&self.statistics.values));
        (folded, &self.workers, &mut self.losses)
    }

    fn ready_workers(&mut self) {
        if !self.workers.fits() {
            self.workers = workers(self.channels);
        }
    }
}

fn workers(channels: usize) -> PerWorker<Space> {
    PerWorker::new(|| Space::new(channels, channels * OUTPUT_SIZE * OUTPUT_SIZE))
}

impl Decoder for Network {
    fn d_x(&self) -> usize {
        LATENTS
    }

    fn d_y(&self) -> usize {
        self.channels * OUTPUT_SIZE * OUTPUT_SIZE
    }

    fn tensors(&self) -> &[Tensor] {
        &self.parameters.tensors
    }

    fn parameters(&self) -> &[f32] {
        &self.parameters.values
    }

    fn parameters_mut(&mut self) -> &mut [f32] {
        [&mut self.plain, &mut self.folded].into_iter().flatten().for_each(|packed| packed.fresh = false);
        &mut self.parameters.values
    }

    fn statistics_tensors(&self) -> &[Tensor] {
        &self.statistics.tensors
    }

    fn statistics(&self) -> &[f32] {
        &self.statistics.values
    }

    fn statistics_mut(&mut self) -> &mut [f32] {
        self.folded.iter_mut().for_each(|packed| packed.fresh = false);
        &mut self.statistics.values
    }

    fn decode(&mut self, x: &[f32], images: &mut [f32]) {
        let count = self.images(x);
        assert_eq!(images.len(), count * self.d_y(), "room for {count} images");
        let chunk = TOGETHER * self.d_y();
        let (folded, workers, losses) = self.ready_to_stream();
        losses.resize(count.div_ceil(TOGETHER), 0.0);
        let Ok(()) = for_each2(true, (images, chunk), (losses, 1), |i, images, _| {
            let x = &x[i * TOGETHER * LATENTS..];
            workers.get().decode(folded, &x[..x.len().min(TOGETHER * LATENTS)], images);
            Ok::<_, Infallible>(())
        });
    }

    fn backward(&mut self, mode: Mode, x: &[f32], loss: &ImageLoss<'_>, mut wanted: Wanted<'_>) -> f64 {
        let count = self.images(x);
        let right = |given: &Option<&mut [f32]>, len| given.as_ref().is_none_or(|g| g.len() == len);
        assert!(right(&wanted.parameters, self.parameters.values.len()), "room for all parameters");
        assert!(right(&wanted.latents, x.len()), "room for all latents");
        if count == 0 {
            wanted.parameters.iter_mut().for_each(|g| g.fill(0.0));
            return 0.0;
        }
        let stop = wanted.stop;
        match wanted {
            Wanted { parameters: None, latents: Some(latents), .. } if mode == Mode::Eval => {
                let (folded, workers, losses) = self.ready_to_stream();
                losses.resize(count.div_ceil(TOGETHER), 0.0);
                let chunk = TOGETHER * LATENTS;
                let Ok(()) = for_each2(true, (latents, chunk), (losses, 1), |i, d_x, total| {
                    if stop.is_set() {
                        return Ok(());
                    }
                    let x = &x[i * chunk..][..d_x.len()];
                    total[0] = workers.get().gradient(folded, i * TOGETHER, x, loss, d_x);
                    Ok::<_, Infallible>(())
                });
                self.losses.iter().sum()
            }
            wanted => {
                self.ready_workers();
                let plain = self.plain.get_or_insert_with(|| Packed::new(self.channels));
                plain.set(&self.layout, &self.parameters.values, None);
                if mode == Mode::Train {
                    self.folded.iter_mut().for_each(|packed| packed.fresh = false);
                }
                let pass = Pass {
                    mode,
                    channels: self.channels,
                    layout: &self.layout,
                    packed: plain,
                    parameters: &self.parameters.values,
                    workers: &self.workers,
                    x,
                    loss,
                };
                self.batch.run(&pass, &mut self.statistics.values, wanted)
            }
        }
    }
}
