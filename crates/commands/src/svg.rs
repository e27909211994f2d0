//! This module writes SVG drawings of rectangles, lines and text, without scripts or fonts.

use std::fmt::Write as _;

/// The part of a text that lies at its point: start, middle or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins at the point.
    Start,
    /// The text ends at the point.
    End,
    /// The text is centred on the point.
    Middle,
}

/// Returns a drawing on a white background. Width and height are in pixels.
pub fn document(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         {body}</svg>\n"
    )
}

/// Appends a filled rectangle.
pub fn rectangle(x: f64, y: f64, width: f64, height: f64, colour: &str, out: &mut String) {
    let _ = write!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height}\" fill=\"{colour}\"/>"
    );
}

/// Appends a line through all points.
pub fn polyline(points: &[(f64, f64)], colour: &str, out: &mut String) {
    let _ =
        write!(out, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"");
    for (x, y) in points {
        let _ = write!(out, "{x:.1},{y:.1} ");
    }
    out.push_str("\"/>\n");
}

/// Appends text that begins at a point.
pub fn text(x: f64, y: f64, size: f64, text: &str, out: &mut String) {
    anchored_text(x, y, size, Anchor::Start, text, out);
}

/// Appends text whose part `anchor` lies at a point.
pub fn anchored_text(x: f64, y: f64, size: f64, anchor: Anchor, text: &str, out: &mut String) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::End => " text-anchor=\"end\"",
        Anchor::Middle => " text-anchor=\"middle\"",
    };
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"#222\"{anchor}>{text}</text>"
    );
}
