//! `geometry`: what the settings of a device amount to.

use anyhow::Context as _;

use crate::args::GeometryArgs;
use crate::device::Template;
use crate::failure::{Failure, Status};
use crate::ui::{self, JsonSink, Ui};

/// `pcstream geometry`.
pub fn geometry(args: &GeometryArgs, ui: Ui) -> Result<Status, Failure> {
    let json = JsonSink::asked(&args.output)?;
    let template = Template::load(&args.device)?;
    let devices = template.devices(None)?;
    if args.toml {
        let text = toml::to_string(&devices.profile).context("cannot print the settings as TOML")?;
        ui::print(&text)?;
        return Ok(Status::Done);
    }
    let result = pcstream_report::geometry::json(template.origin(), &devices.settings, &devices.profile);
    ui::show(json, &result, || ui.layout(false).fit(&pcstream_report::geometry::text(&result), 12))?;
    Ok(Status::Done)
}
