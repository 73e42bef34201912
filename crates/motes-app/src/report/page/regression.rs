//! What a regression says besides its parameters: its formula, its coefficients and how it tells test rows apart.

use std::fmt::Write;

use motes::Summary;

use super::super::words::{decimals_for, fixed, grouped};
use super::{NONE, escape, exact, interval_name, note, section};
use crate::show;

/// The model in formulas, and the rows that it was fitted to.
pub(super) fn the_model(out: &mut String, s: &Summary) {
    if s.formula.is_empty() {
        return;
    }
    section(out, "Model");
    let lines: Vec<String> = s.formula.iter().map(|line| escape(line)).collect();
    let _ = writeln!(out, "<p><code>{}</code></p>", lines.join("<br>"));
    if let Some(rows) = show::rows(s) {
        note(out, format_args!("{}.", escape(&rows)));
    }
    out.push_str("</section>\n");
}

/// The coefficients of a regression: a picture of the standardised ones, and a table of both kinds.
pub(super) fn coefficients(out: &mut String, s: &Summary, drawn: bool) {
    let Some(all) = s.coefficients.as_deref().filter(|all| !all.is_empty()) else { return };
    section(out, "Coefficients");
    if drawn {
        out.push_str("<div class=\"chart\" data-chart=\"forest\"></div>\n");
    }
    let heads = ["mean", "sd", &interval_name(s), "P(sign)", "standardised", "its sd"];
    let classes = all.iter().any(|c| c.class.is_some());
    out.push_str("<div class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"Coefficients\"><table class=\"coefficients\"><thead><tr><th scope=\"col\">feature</th>");
    if classes {
        out.push_str("<th scope=\"col\" class=\"word\">class</th>");
    }
    heads.iter().for_each(|head| {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    });
    out.push_str("</tr></thead><tbody>\n");
    for c in all {
        let decimals = decimals_for(c.original.sd) + 1;
        let shown = |v: f64| exact(Some(v), |v| fixed(v, decimals));
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&c.name));
        if classes {
            let _ = write!(out, "<td class=\"word\">{}</td>", escape(c.class.as_deref().unwrap_or("")));
        }
        let interval = c.original.interval.map_or(NONE.into(), |[low, high]| {
            format!("<span class=\"line\">{} to {}</span>", shown(low), shown(high))
        });
        let cells = [
            shown(c.original.mean),
            shown(c.original.sd),
            interval,
            exact(c.sign_probability, |v| fixed(v, 3)),
            exact(Some(c.standardised.mean), |v| fixed(v, 3)),
            exact(Some(c.standardised.sd), |v| fixed(v, 3)),
        ];
        cells.iter().for_each(|cell| {
            let _ = write!(out, "<td>{cell}</td>");
        });
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    note(
        out,
        "Posterior means at the estimate of theta, per unit of the column and, in the column “standardised”, per standard deviation of it. P(sign) is the posterior probability that the coefficient has the sign of its mean. coefficients.csv has all digits.",
    );
    out.push_str("</section>\n");
}

/// How well test rows are told apart.
pub(super) fn test(out: &mut String, s: &Summary) {
    let Some(test) = &s.test else { return };
    let data = s.data.as_ref();
    let name = |i: usize| data.and_then(|d| d["classes"].get(i)?.as_str()).map_or(format!("{i}"), escape);
    section(out, "Test rows");
    out.push_str("<div class=\"trio\">\n");
    if test.roc.is_some() {
        let _ = writeln!(out, "<div class=\"chart\" data-chart=\"roc\" data-name=\"{}\"></div>", name(1));
    }
    let whose = if test.confusion.len() == 2 { name(1) } else { "the likeliest class".into() };
    let _ =
        writeln!(out, "<div class=\"chart\" data-chart=\"calibration\" data-name=\"{whose}\"></div></div>");
    out.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\"><table class=\"confusion\"><thead><tr><th scope=\"col\">rows of class</th>");
    for i in 0..test.confusion.len() {
        let _ = write!(out, "<th scope=\"col\">predicted {}</th>", name(i));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (i, row) in test.confusion.iter().enumerate() {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", name(i));
        for (j, count) in row.iter().enumerate() {
            let right = if i == j { " class=\"right\"" } else { "" };
            let _ = write!(out, "<td{right}>{}</td>", grouped(*count));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    note(
        out,
        "A row is assigned to the class with the largest mean probability. Calibrated probabilities lie on the diagonal, apart from chance: the fewer rows behind a point, the farther off it may be.",
    );
    out.push_str("</section>\n");
}
