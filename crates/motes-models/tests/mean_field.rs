//! Mean-field inference: its steps by hand, and its optimum on the toy model, where the posterior is a product Gaussian.

use motes::algorithms::MEAN_FIELD;
use motes::noise::{Noise, Purpose};
use motes::summary::posterior_moments;
use motes::{Pool, Settings, State, run, start};
use motes_models::Hierarchical;

fn fit(model: &Hierarchical<f64>, settings: &Settings) -> State<f64> {
    Pool::new(Some(2)).unwrap().install(|| {
        let mut state = start(model, settings).unwrap();
        run(model, settings, &mut state, None, &mut []).unwrap();
        state
    })
}

/// App. E.2's free energy on the toy model, differentiated on paper.
#[test]
fn three_steps_by_hand() {
    let (y, h, n, d) = ([0.7, -1.2], 0.1, 3, 2);
    let settings = Settings {
        algorithm: &MEAN_FIELD,
        particles: n,
        steps: 3,
        burn_in: 0,
        step_size: h,
        seed: 5,
        ..Settings::default()
    };
    let state = fit(&Hierarchical::new(&y), &settings);
    let (mut theta, mut mu, mut s) = (0.0, [0.0; 2], [1.0f64; 2]);
    for k in 0..3 {
        let mut eps = vec![0.0; n * d];
        Noise::new(5, Purpose::Particles).normals_f64(k, 0, &mut eps);
        let sigma = s.map(|s| s.exp().ln_1p().sqrt());
        let x = |i: usize, j: usize| mu[j] + sigma[j] * eps[i * d + j];
        let gradient = |i: usize, j: usize| y[j] + theta - 2.0 * x(i, j);
        let mean = |f: &dyn Fn(usize) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        let to_theta = mean(&|i| (0..d).map(|j| x(i, j) - theta).sum());
        let to_mu = [0, 1].map(|j| mean(&|i| gradient(i, j)));
        // d sigma / d s = slope / (2 sigma), and the entropy adds half of d log sigma^2 / d s
        let to_s = [0, 1].map(|j| {
            let slope = 1.0 / (1.0 + (-s[j]).exp());
            let through_x = mean(&|i| gradient(i, j) * eps[i * d + j]) * slope / (2.0 * sigma[j]);
            through_x + 0.5 * slope / (sigma[j] * sigma[j])
        });
        theta += h * to_theta;
        for j in 0..d {
            mu[j] += h * to_mu[j];
            s[j] += h * to_s[j];
        }
    }
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    close(state.theta[0], theta);
    for j in 0..d {
        close(state.remembered("variational")[j], mu[j]);
        close(state.remembered("variational")[d + j], s[j]);
    }
}

/// The best product Gaussian is the posterior itself: mean (y + theta_*)/2, variance 1/2, theta_* = mean(y).
#[test]
fn the_toy_posterior_is_found() {
    let y = Hierarchical::<f64>::generate(20, 3.0, 1);
    let model = Hierarchical::<f64>::new(&y);
    let settings = Settings {
        algorithm: &MEAN_FIELD,
        particles: 100,
        steps: 8000,
        burn_in: 4000,
        step_size: 0.01,
        ..Settings::default()
    };
    let state = fit(&model, &settings);
    // Near the optimum mu_j moves by h times a mean of 100 gradients of variance 4 sigma^2 = 2, and contracts by 2h:
    // a stationary variance of h^2 (2/100) / (4h) = h/200 for mu_j, less for theta.
    let error = (0.01f64 / 200.0).sqrt();
    let truth = model.theta_star();
    assert!((state.averages.theta_mean().unwrap()[0] - truth).abs() < 4.0 * error);
    let (mean, variance) = posterior_moments::<f64>(&model, &state).unwrap();
    for j in 0..20 {
        assert!((mean[j] - 0.5 * (y[j] + truth)).abs() < 5.0 * error, "{j}");
        // sigma^2's noise is of the same order: its gradient has the variance of eps^2, and it contracts at a like rate
        assert!((variance[j] - 0.5).abs() < 5.0 * error, "{j}: {}", variance[j]);
    }
    // A shift by 1 % or a variance of 0.55 would be seen.
    assert!(0.01 * truth > 4.0 * error / 2.0 && 0.05 > 5.0 * error);
}
