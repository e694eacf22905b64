//! Pictures as PNG: the same SVG, drawn in light colours with a font of this machine.
//!
//! Units: pixels; a picture has twice as many as the SVG has units, so that text is sharp on dense screens.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query};
use resvg::usvg::{Options, Tree};

/// Pixels for each unit of the SVG.
const SCALE: f32 = 2.0;

/// Fonts to take for text without serifs, the first that is installed.
const SANS_SERIF: [&str; 5] = ["Noto Sans", "DejaVu Sans", "Liberation Sans", "Cantarell", "FreeSans"];

/// Draws a stand-alone picture.
pub fn draw(svg: &str) -> anyhow::Result<Vec<u8>> {
    let options = Options { fontdb: Arc::new(fonts()?), ..Options::default() };
    let tree = Tree::from_str(&with_colours(svg), &options).context("cannot read the picture")?;
    let size = tree.size();
    let pixels = |units: f32| (units * SCALE).ceil() as u32;
    let (width, height) = (pixels(size.width()), pixels(size.height()));
    let mut map = Pixmap::new(width, height)
        .ok_or_else(|| anyhow!("no memory for a picture of {width} x {height} pixels"))?;
    map.fill(resvg::tiny_skia::Color::WHITE);
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut map.as_mut());
    map.encode_png().context("cannot make a PNG of the picture")
}

/// The fonts of this machine, with one for text without serifs.
fn fonts() -> anyhow::Result<Database> {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    let installed = |name: &&str| {
        let query = Query { families: &[Family::Name(name)], ..Query::default() };
        fonts.query(&query).is_some()
    };
    let first = || fonts.faces().next().and_then(|face| face.families.first()).map(|(name, _)| name.clone());
    let name = SANS_SERIF.iter().find(|name| installed(name)).map(|name| (*name).to_owned()).or_else(first);
    let name = name.ok_or_else(|| {
        anyhow!(
            "no font is installed, so a PNG would have no text: apt install fonts-dejavu-core, or use --svg"
        )
    })?;
    fonts.set_sans_serif_family(name);
    Ok(fonts)
}

/// The style sheet's variables, by their first values, which are those for light backgrounds: the renderer knows no `var()`.
fn with_colours(svg: &str) -> String {
    let light =
        svg.split_once(":root {").and_then(|(_, rest)| rest.split_once('}')).map_or("", |(rules, _)| rules);
    let variables = light.split(';').filter_map(|rule| rule.trim().split_once(':'));
    variables.fold(svg.to_owned(), |text, (name, value)| text.replace(&format!("var({name})"), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::with_colours;

    #[test]
    fn variables_have_their_light_values() {
        let svg = "<style>:root { --a:#fff; --b: #123456; }\n@media x { :root { --a:#000; } } .f { fill: var(--a); \
                   stroke: var(--b); }</style>";
        let text = with_colours(svg);
        assert!(text.contains("fill: #fff; stroke: #123456;"), "{text}");
    }
}
