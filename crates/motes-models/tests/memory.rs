//! What a run is said to need is what it asks for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use motes::settings::{Growth, Preconditioner};
use motes::{Model, Real, Settings, memory};
use motes_models::options::Table;
use motes_models::registry::{self, Given};
use serde_json::{Value, json};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which remembers how much there was at most.
struct Counted;

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size(), Ordering::Relaxed);
        // SAFETY: what is asked of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: what is asked of the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

/// The bytes that a run asks for at most, and those that it is said to need.
fn asked_and_told<F: Real>(model: &dyn Model<F>, settings: &Settings) -> (f64, f64) {
    motes::blocks::Pool::new(Some(2)).unwrap().install(|| {
        let before = NOW.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let mut state = motes::start(model, settings).unwrap();
        motes::run(model, settings, &mut state, None, &mut []).unwrap();
        let asked = MOST.load(Ordering::Relaxed) - before;
        (asked as f64, memory::estimate(model, settings) as f64)
    })
}

fn table(options: Value) -> Table {
    options.as_object().unwrap().clone()
}

#[test]
fn a_run_asks_for_what_it_is_said_to_need() {
    let settings = |algorithm: &str, particles, steps| Settings {
        algorithm: motes::ALGORITHMS.iter().find(|a| a.name == algorithm).unwrap(),
        particles,
        steps,
        burn_in: steps / 2,
        step_size: 1e-5,
        keep_clouds: 0,
        ..Settings::default()
    };
    let adjusted = |settings: Settings| Settings { adjust: true, ..settings };
    let images = json!({"classes": [4, 9], "subsample": 200});
    let cases = [
        ("hierarchical", json!({"dim": 40_000}), settings("pgd", 10, 8)),
        ("hierarchical", json!({"dim": 40_000, "groups": 1}), settings("pgd", 10, 8)),
        ("hierarchical", json!({"dim": 40_000, "groups": 1}), adjusted(settings("pgd", 10, 8))),
        ("hierarchical", json!({"dim": 40_000}), settings("kiplmc", 10, 8)),
        ("hierarchical", json!({"dim": 40_000, "groups": 1}), settings("joint-mh", 10, 8)),
        ("logistic", json!({}), adjusted(settings("pgd", 4000, 8))),
        ("bnn", images.clone(), settings("pgd", 2, 4)),
        ("bnn", images.clone(), settings("pgd", 20, 4)),
        ("bnn", images, adjusted(settings("pgd", 20, 4))),
        (
            "hierarchical",
            json!({"dim": 4000, "groups": 1}),
            Settings {
                grow: Growth(vec![(4, 100)]),
                preconditioner: Preconditioner::Adam,
                ..settings("pgd", 50, 8)
            },
        ),
    ];
    for (name, options, settings) in cases {
        let problem = registry::find(name).unwrap().load(table(options.clone()), Given::Options).unwrap();
        for single in [false, true] {
            let (asked, told) = match single {
                true => asked_and_told(&*problem.single(&settings).unwrap(), &settings),
                false => asked_and_told(&*problem.double(&settings).unwrap(), &settings),
            };
            let ratio = told / asked;
            println!(
                "{name} {options} {} {}: asked {asked:.3e}, told / asked {ratio:.3}",
                settings.algorithm, settings.adjust
            );
            assert!(
                (0.85..1.15).contains(&ratio),
                "{name} {options} {settings:?}: {asked} bytes and {told} said"
            );
        }
    }
}
