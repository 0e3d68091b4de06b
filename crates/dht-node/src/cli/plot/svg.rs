//! Writes the elements of a picture, so that the file is well-formed whatever its texts hold.

/// Attributes of an element: names and values.
pub(super) type Attributes<'a> = [(&'a str, &'a str)];

/// A picture being written.
#[derive(Debug)]
pub(super) struct Svg {
    text: String,
    open: Vec<&'static str>,
}

impl Svg {
    /// Begins a picture of this size, with a title and a description for those who cannot see it.
    pub(super) fn new(width: f64, height: f64, title: &str, description: &str, css: &str) -> Svg {
        let mut svg = Svg { text: String::new(), open: Vec::new() };
        let (width, height) = (px(width), px(height));
        svg.open(
            "svg",
            &[
                ("xmlns", "http://www.w3.org/2000/svg"),
                ("viewBox", &format!("0 0 {width} {height}")),
                ("width", &width),
                ("height", &height),
                ("role", "img"),
                ("aria-labelledby", "title desc"),
                ("font-family", "system-ui, sans-serif"),
            ],
        );
        svg.words("title", &[("id", "title")], title);
        svg.words("desc", &[("id", "desc")], description);
        svg.words("style", &[], css);
        svg
    }

    /// Begins an element; what follows is inside, until [`Svg::close`].
    pub(super) fn open(&mut self, name: &'static str, attributes: &Attributes<'_>) {
        self.tag(name, attributes);
        self.text.push_str(">\n");
        self.open.push(name);
    }

    /// Ends the element that was begun last.
    pub(super) fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.text.push_str(&format!("</{name}>\n"));
        }
    }

    /// An element without anything inside.
    pub(super) fn leaf(&mut self, name: &str, attributes: &Attributes<'_>) {
        self.tag(name, attributes);
        self.text.push_str("/>\n");
    }

    /// Words at a place; `anchor` says which part of them stands there.
    pub(super) fn text(
        &mut self,
        x: f64,
        y: f64,
        anchor: &str,
        attributes: &Attributes<'_>,
        text: &str,
    ) {
        let (x, y) = (px(x), px(y));
        let mut all = vec![("x", &x[..]), ("y", &y[..]), ("text-anchor", anchor)];
        all.extend(attributes);
        self.words("text", &all, text);
    }

    /// What the element that was begun last is called when the pointer rests on it.
    pub(super) fn titled(&mut self, text: &str) {
        self.words("title", &[], text);
    }

    /// Ends everything that was begun.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    fn words(&mut self, name: &str, attributes: &Attributes<'_>, text: &str) {
        self.tag(name, attributes);
        self.text.push('>');
        self.text.push_str(&escaped(text));
        self.text.push_str(&format!("</{name}>\n"));
    }

    fn tag(&mut self, name: &str, attributes: &Attributes<'_>) {
        self.text.push('<');
        self.text.push_str(name);
        for (name, value) in attributes {
            self.text.push_str(&format!(" {name}=\"{}\"", escaped(value)));
        }
    }
}

/// A length to a hundredth of a pixel, which nobody sees.
pub(super) fn px(length: f64) -> String {
    let rounded = (length * 100.0).round() / 100.0;
    // Adding zero makes an ordinary zero of a negative one.
    (rounded + 0.0).to_string()
}

/// Text for XML 1.0, in elements and in quoted attributes. Control characters cannot be written at
/// all (section 2.2), so they are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push('\n'),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        assert_eq!([0.0, -0.001, 1.0, 1.005, 2.0 / 3.0].map(px), ["0", "0", "1", "1", "0.67"]);
    }

    #[test]
    fn what_would_end_a_text_is_escaped() {
        assert_eq!(
            escaped("a<b> & \"c\"\u{0}\u{1b}\u{ffff}é\n"),
            "a&lt;b&gt; &amp; &quot;c&quot;é\n"
        );
    }

    #[test]
    fn everything_that_was_begun_is_ended() {
        let mut svg = Svg::new(1.0, 1.0, "t", "d", "");
        svg.open("g", &[]);
        svg.open("g", &[("class", "x")]);
        assert!(svg.finish().ends_with("<g>\n<g class=\"x\">\n</g>\n</g>\n</svg>\n"));
    }
}
