//! Every algorithm against a plain transcription of the paper's equations, fed with the same noise, step by step.

use crate::common;

use motes::algorithms::{Algorithm, IPLA, JOINT_MH, PGD, PMGD, PQN, SOUL};
use motes::noise::{Noise, Purpose};
use motes::settings::{JointUpdate, Preconditioner};
use motes::{Flow, Settings, StepInfo};
use motes_models::Hierarchical;

type Cloud = Vec<Vec<f64>>;

/// The toy model of Ex. 1 and the draws of one run.
struct Paper {
    y: Vec<f64>,
    seed: u64,
    h: f64,
}

/// Where a run stands: what adaptive rules remember, and (mu, s) of mean-field, besides theta and the cloud.
struct Position {
    theta: f64,
    cloud: Cloud,
    memory: [f64; 2],
    mu: Vec<f64>,
    spread: Vec<f64>,
}

impl Paper {
    /// l(theta, x) up to a constant.
    fn l(&self, theta: f64, x: &[f64]) -> f64 {
        let term = |(x, y): (&f64, &f64)| -0.5 * (x - theta).powi(2) - 0.5 * (y - x).powi(2);
        x.iter().zip(&self.y).map(term).sum()
    }

    fn grad_x(&self, theta: f64, x: &[f64]) -> Vec<f64> {
        x.iter().zip(&self.y).map(|(x, y)| y + theta - 2.0 * x).collect()
    }

    /// The sum over the cloud.
    fn grad_theta(&self, theta: f64, cloud: &Cloud) -> f64 {
        cloud.iter().flatten().map(|x| x - theta).sum()
    }

    /// theta_*(x^{1:N}).
    fn theta_star(&self, cloud: &Cloud) -> f64 {
        let all: Vec<f64> = cloud.concat();
        all.iter().sum::<f64>() / all.len() as f64
    }

    /// X + h grad + sqrt(2h) W for particle n of step k.
    fn langevin(&self, k: u64, n: usize, theta: f64, x: &[f64]) -> Vec<f64> {
        let mut w = vec![0.0; x.len()];
        Noise::new(self.seed, Purpose::Particles).normals_f64(k, (n * x.len()) as u64, &mut w);
        let gradient = self.grad_x(theta, x);
        (0..x.len()).map(|i| x[i] + self.h * gradient[i] + (2.0 * self.h).sqrt() * w[i]).collect()
    }

    /// The logarithm of the density of N(z; x + h grad, 2h I), up to a constant.
    fn log_kernel(&self, theta: f64, x: &[f64], z: &[f64]) -> f64 {
        let gradient = self.grad_x(theta, x);
        (0..x.len()).map(|i| -(z[i] - x[i] - self.h * gradient[i]).powi(2) / (4.0 * self.h)).sum()
    }

    fn log_uniform(&self, k: u64, index: usize) -> f64 {
        Noise::new(self.seed, Purpose::Accept).uniform(k, index as u64).ln()
    }

    /// Sum over particles of log p_theta(x, y) + log K_theta(x, z).
    fn weight(&self, theta: f64, from: &Cloud, to: &Cloud) -> f64 {
        from.iter().zip(to).map(|(x, z)| self.l(theta, x) + self.log_kernel(theta, x, z)).sum()
    }

    /// The particles' moves at theta, each accepted or rejected at that theta if `adjust`.
    fn moved(&self, k: u64, theta: f64, cloud: &Cloud, adjust: bool) -> Cloud {
        let one = |(n, x): (usize, &Vec<f64>)| {
            let z = self.langevin(k, n, theta, x);
            let ratio = self.l(theta, &z) - self.l(theta, x) + self.log_kernel(theta, &z, x)
                - self.log_kernel(theta, x, &z);
            if adjust && self.log_uniform(k, n) > ratio { x.clone() } else { z }
        };
        cloud.iter().enumerate().map(one).collect()
    }

    /// theta_{k+1} of PGD (eqs. 14, 16, and the published adaptive rules) or PQN (eq. 33).
    fn next_theta(&self, s: &Settings, k: u64, theta: f64, cloud: &Cloud, memory: &mut [f64; 2]) -> f64 {
        let (n, d) = (cloud.len() as f64, self.y.len() as f64);
        let sum = self.grad_theta(theta, cloud);
        if s.algorithm == &PQN || s.algorithm == &JOINT_MH && s.joint_update == JointUpdate::Pqn {
            return theta - self.h / (-n * d) * sum;
        }
        let g = sum / n;
        let [m, v] = memory;
        let direction = match s.preconditioner {
            Preconditioner::None => g,
            Preconditioner::Diagonal => g / d,
            Preconditioner::Adagrad => {
                *v += g * g;
                g / (v.sqrt() + 1e-8)
            }
            Preconditioner::Rmsprop => {
                *v = 0.99 * *v + 0.01 * g * g;
                g / (v.sqrt() + 1e-8)
            }
            Preconditioner::Adam => {
                (*m, *v) = (0.9 * *m + 0.1 * g, 0.999 * *v + 0.001 * g * g);
                let t = k as i32 + 1;
                let (first, second) = (*m / (1.0 - 0.9f64.powi(t)), *v / (1.0 - 0.999f64.powi(t)));
                first / (second.sqrt() + 1e-8)
            }
        };
        theta + self.h * direction
    }

    /// One step of the named algorithm; tells whether a proposal for the whole cloud was rejected.
    fn step(&self, s: &Settings, k: u64, at: &mut Position) -> bool {
        let Position { theta, cloud, memory, mu, spread } = at;
        let adjusting = k >= s.adjust_after;
        match s.algorithm.name {
            "pgd" | "ipla" | "pqn" => {
                let mut next = self.next_theta(s, k, *theta, cloud, memory);
                if s.algorithm == &IPLA {
                    let mut w = [0.0];
                    Noise::new(self.seed, Purpose::Theta).normals_f64(k, 0, &mut w);
                    next += (2.0 * self.h / cloud.len() as f64).sqrt() * w[0];
                }
                *cloud = self.moved(k, *theta, cloud, s.adjust && adjusting);
                *theta = next;
            }
            "pmgd" => {
                *cloud = self.moved(k, *theta, cloud, s.adjust && adjusting);
                *theta = self.theta_star(cloud);
            }
            "soul" => {
                let mut x = cloud[cloud.len() - 1].clone();
                for (n, state) in cloud.iter_mut().enumerate() {
                    x = self.langevin(k, n, *theta, &x);
                    state.clone_from(&x);
                }
                *theta = self.next_theta(s, k, *theta, cloud, memory);
            }
            "marginal-mh" | "joint-mh" => {
                let z = self.moved(k, *theta, cloud, false);
                let psi = match s.algorithm.name {
                    "marginal-mh" => self.theta_star(&z),
                    _ => self.next_theta(s, k, *theta, cloud, memory),
                };
                let ratio = self.weight(psi, &z, cloud) - self.weight(*theta, cloud, &z);
                if adjusting && self.log_uniform(k, 0) > ratio {
                    return true;
                }
                (*theta, *cloud) = (psi, z);
            }
            "mean-field" => {
                let sigma: Vec<f64> = spread.iter().map(|s| (1.0 + s.exp()).ln().sqrt()).collect();
                let mut eps = cloud.clone();
                for (n, (x, eps)) in cloud.iter_mut().zip(&mut eps).enumerate() {
                    let first = (n * x.len()) as u64;
                    Noise::new(self.seed, Purpose::Particles).normals_f64(k, first, eps);
                    (0..x.len()).for_each(|i| x[i] = mu[i] + sigma[i] * eps[i]);
                }
                let next = self.next_theta(s, k, *theta, cloud, memory);
                let gradients: Cloud = cloud.iter().map(|x| self.grad_x(*theta, x)).collect();
                for i in 0..mu.len() {
                    // Of the mean of l(theta, mu + sigma eps) plus the entropy, log sigma.
                    let mean =
                        |f: &dyn Fn(usize) -> f64| (0..eps.len()).map(f).sum::<f64>() / eps.len() as f64;
                    let d_mu = mean(&|n| gradients[n][i]);
                    let d_sigma = mean(&|n| gradients[n][i] * eps[n][i]) + 1.0 / sigma[i];
                    let d_variance = d_sigma / (2.0 * sigma[i]);
                    mu[i] += self.h * d_mu;
                    spread[i] += self.h * d_variance * spread[i].exp() / (1.0 + spread[i].exp());
                }
                *theta = next;
            }
            "kiplmc" => {
                // Velocities of the particles in mu, of theta in the memory; kick, refresh, kick, drift.
                let (h, n, keeps) = (self.h, cloud.len() as f64, (-s.friction * self.h).exp());
                let stirs = (1.0 - keeps * keeps).sqrt();
                let force = self.grad_theta(*theta, cloud) / n;
                let mut w = vec![0.0; cloud.len() * self.y.len()];
                Noise::new(self.seed, Purpose::Particles).normals_f64(k, 0, &mut w);
                mu.resize(w.len(), 0.0);
                for (i, x) in cloud.iter_mut().enumerate() {
                    let gradient = self.grad_x(*theta, x);
                    for j in 0..x.len() {
                        let v = &mut mu[i * gradient.len() + j];
                        *v += 0.5 * h * gradient[j];
                        *v = keeps * *v + stirs * w[i * gradient.len() + j];
                        *v += 0.5 * h * gradient[j];
                        x[j] += h * *v;
                    }
                }
                Noise::new(self.seed, Purpose::Theta).normals_f64(k, 0, &mut w[..1]);
                memory[0] += 0.5 * h * force;
                memory[0] = keeps * memory[0] + stirs / n.sqrt() * w[0];
                memory[0] += 0.5 * h * force;
                *theta += h * memory[0];
            }
            "abp" | "short-run" => {
                let moves = u64::from(s.transitions);
                for (n, x) in cloud.iter_mut().enumerate() {
                    if s.algorithm.name == "short-run" {
                        let first = (n * x.len()) as u64;
                        Noise::new(self.seed, Purpose::Prior).normals_f64(k + 1, first, x);
                        x.iter_mut().for_each(|x| *x += *theta);
                    }
                    for t in 0..moves {
                        *x = self.langevin(k * moves + t, n, *theta, x);
                    }
                }
                *theta = self.next_theta(s, k, *theta, cloud, memory);
            }
            "em" => {
                let y_mean = self.y.iter().sum::<f64>() / self.y.len() as f64;
                *theta = 0.5 * (y_mean + *theta);
            }
            other => panic!("{other} has no equations here"),
        }
        false
    }
}

#[test]
fn every_algorithm_follows_the_papers_equations() {
    let y = Hierarchical::<f64>::generate(3, 2.0, 4);
    let model = Hierarchical::<f64>::new(&y);
    let base = Settings {
        particles: 6,
        steps: 150,
        burn_in: 0,
        seed: 21,
        adjust_after: 20,
        transitions: 3,
        ..Settings::default()
    };
    let mut runs = Vec::new();
    // The toy model has no inference network for a VAE, and auto, which adapts what it does, is judged by what it comes to.
    for word in Algorithm::names().into_iter().filter(|word| !["vae", "auto"].contains(word)) {
        let algorithm: &'static Algorithm = word.parse().expect("a word on the list");
        runs.push(Settings { algorithm, step_size: 0.25, ..base.clone() });
    }
    let joint_update = JointUpdate::Pqn;
    runs.push(Settings { algorithm: &JOINT_MH, joint_update, step_size: 0.25, ..base.clone() });
    for algorithm in [&PGD, &PQN, &PMGD] {
        runs.push(Settings { algorithm, adjust: true, step_size: 0.35, ..base.clone() });
    }
    for word in Preconditioner::WORDS {
        let preconditioner: Preconditioner = word.parse().expect("a word on the list");
        for algorithm in [&PGD, &SOUL] {
            runs.push(Settings { algorithm, preconditioner, step_size: 0.1, ..base.clone() });
        }
        if matches!(preconditioner, Preconditioner::None | Preconditioner::Diagonal) {
            let algorithm = &JOINT_MH;
            runs.push(Settings { algorithm, preconditioner, step_size: 0.2, ..base.clone() });
        }
    }
    for settings in runs {
        let paper = Paper { y: y.clone(), seed: settings.seed, h: settings.step_size };
        let name = format!("{} {} {}", settings.algorithm, settings.preconditioner, settings.joint_update);
        let n = if settings.has_cloud() { settings.particles } else { 0 };
        let (cloud, mu, spread) = (vec![vec![0.0; 3]; n], vec![0.0; 3], vec![1.0; 3]);
        let mut at = Position { theta: 0.0, cloud, memory: [0.0; 2], mu, spread };
        let (mut rejected, mut taken) = (0, 0.0);
        let mut observer = |info: &StepInfo<'_, f64>| {
            if info.k > 0 {
                rejected += u32::from(paper.step(&settings, info.k - 1, &mut at));
                taken += info.acceptance.unwrap_or(0.0);
            }
            let far = info.cloud.as_slice().iter().zip(at.cloud.iter().flatten()).map(|(a, b)| (a - b).abs());
            let far = far.fold((info.theta[0] - at.theta).abs(), f64::max);
            assert!(far < 1e-9, "{name}: {far:e} apart after step {}", info.k);
            Flow::Continue
        };
        common::on(1, || {
            let mut state = motes::start(&model, &settings).expect("a start");
            motes::run(&model, &settings, &mut state, None, &mut [&mut observer]).map(drop)
        })
        .expect("a run");
        let steps = (settings.steps - settings.adjust_after) as f64;
        if settings.accepts() {
            assert!(taken > 0.1 * steps && taken < 0.97 * steps, "{name}: {taken} of {steps} accepted");
        }
        if settings.accepts() && !settings.adjust {
            assert_eq!(taken + f64::from(rejected), steps, "{name}");
        }
    }
}
