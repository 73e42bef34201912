//! `motes report`.

use motes::Ended;

use crate::args::ReportArgs;

/// Writes the page that is asked for and says where it is.
pub fn report(args: ReportArgs) -> Result<Ended, String> {
    let output = motes_app::report::write_page(&args.dirs, args.output)?;
    crate::tell(&format!("{}\n", output.to_string_lossy()));
    Ok(Ended::Complete)
}
