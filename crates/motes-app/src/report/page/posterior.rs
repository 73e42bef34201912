//! The posterior of a run: a table of its coordinates, and their densities.

use std::fmt::Write;

use super::super::clouds;
use super::super::read::{Posterior, Run};
use super::super::words::{decimals_for, fixed, grouped, significant};
use super::{escape, note, section};

/// A search box is worth its place from here on.
const MANY: usize = 12;

pub(super) fn posterior(out: &mut String, run: &Run) {
    if run.summary.is_none() {
        return;
    }
    let settled = run.summary.as_ref().is_some_and(|s| !s.theta.se.is_empty());
    section(out, if settled { "Posterior at the estimate" } else { "Posterior" });
    let Some(p) = &run.posterior else {
        note(
            out,
            "There is nothing to show: the run has no posterior.npz, or it kept no steps after burn-in.",
        );
        out.push_str("</section>\n");
        return;
    };
    let sampled = p.rows.iter().any(|r| r.marginal.is_some());
    let in_stages = run.steps.is_none();
    let of = match (p.last_cloud_only, in_stages) {
        (true, _) => "the last cloud",
        (false, true) => "the clouds kept in the third stage",
        (false, false) => "the clouds kept after burn-in",
    };
    let over = if in_stages {
        "sweep of the third stage, in which theta stays at the estimate"
    } else {
        "step after burn-in"
    };
    let mut how = if sampled {
        format!(
            "Mean and sd are averages over every {over}; quantiles and densities (Gaussian kernels, Silverman’s rule) are those of {} of {of}.",
            particles(p)
        )
    } else {
        "Exact posterior moments; this algorithm keeps no cloud, so there are no quantiles or densities."
            .into()
    };
    if run.is_standardised() {
        how.push_str(" Weights are those of standardised features.");
    }
    if p.rows.iter().any(|r| r.total_sd.is_some()) {
        how.push_str(
            " They take theta as known; the total sd adds to the sd, to first order, what the uncertainty of theta contributes.",
        );
    }
    out.push_str("<div class=\"pair\">\n");
    if sampled {
        out.push_str("<div class=\"chart\" data-chart=\"density\"></div>\n");
    }
    out.push_str("<div>\n");
    if p.rows.len() > MANY {
        let _ = writeln!(
            out,
            "<p class=\"search\"><label>Find <input type=\"search\" data-search placeholder=\"name\" autocomplete=\"off\" spellcheck=\"false\"></label> <span data-found aria-live=\"polite\">{} coordinates</span></p>",
            grouped(p.rows.len() as u64)
        );
    }
    intervals(out, p, sampled);
    out.push_str("</div></div>\n");
    if p.rows.len() < p.total {
        note(
            out,
            format_args!(
                "The {} coordinates with the largest variance are in this report, of {}; posterior.npz has them all.",
                grouped(p.rows.len() as u64),
                grouped(p.total as u64)
            ),
        );
    }
    note(out, how);
    out.push_str("</section>\n");
}

/// The particles that marginals are made of.
fn particles(p: &Posterior) -> String {
    if p.particles == p.of_particles {
        return format!("{} particles", grouped(p.particles as u64));
    }
    format!(
        "{} evenly chosen particles (a report looks at no more than {} values) out of the {}",
        grouped(p.particles as u64),
        grouped(clouds::MOST as u64),
        grouped(p.of_particles as u64)
    )
}

/// Intervals with as many decimals as the narrowest needs, so that columns line up.
fn intervals(out: &mut String, p: &Posterior, sampled: bool) {
    let sds = || p.rows.iter().map(|r| r.var.sqrt()).filter(|sd| *sd > 0.0 && sd.is_finite());
    let (least, most) = sds().fold((f64::INFINITY, 0f64), |(a, b), sd| (a.min(sd), b.max(sd)));
    let even = most < 1e4 * least;
    let decimals = if least.is_finite() { (decimals_for(least) + 1).min(8) } else { 4 };
    let show = |v: f64| if even { fixed(v, decimals) } else { significant(v, 4) };
    out.push_str("<div class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"Posterior intervals\"><table class=\"intervals\"><thead><tr><th scope=\"col\">coordinate</th><th scope=\"col\">mean</th><th scope=\"col\">sd</th>");
    let total = p.rows.iter().any(|r| r.total_sd.is_some());
    if total {
        out.push_str("<th scope=\"col\" title=\"includes the uncertainty of theta\">total sd</th>");
    }
    if sampled {
        out.push_str("<th scope=\"col\">5 %</th><th scope=\"col\">50 %</th><th scope=\"col\">95 %</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    let finite = |v: f64| if v.is_finite() { show(v) } else { "–".into() };
    for (i, r) in p.rows.iter().enumerate() {
        let name = escape(&r.name);
        let _ = match &r.marginal {
            Some(_) => write!(
                out,
                "<tr data-i=\"{i}\"><th scope=\"row\"><button type=\"button\">{name}</button></th>"
            ),
            None => write!(out, "<tr data-i=\"{i}\"><th scope=\"row\">{name}</th>"),
        };
        let _ = write!(out, "<td>{}</td><td>{}</td>", finite(r.mean), finite(r.var.sqrt()));
        if total {
            let _ = write!(out, "<td>{}</td>", r.total_sd.map_or("–".into(), finite));
        }
        if sampled {
            match &r.marginal {
                Some(m) => [m.q05, m.q50, m.q95].iter().for_each(|q| {
                    let _ = write!(out, "<td>{}</td>", show(*q));
                }),
                None => out.push_str("<td>–</td><td>–</td><td>–</td>"),
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}
