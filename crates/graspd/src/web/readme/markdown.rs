//! Markdown from strangers as HTML for our page. Nothing of theirs is a tag: HTML in it becomes its
//! text, images their description, and links lead to whole addresses elsewhere or nowhere. Depth,
//! length and work are bounded before a tree is built of it; what comes out was cleaned once more.

use crate::web::frame::HREF_BYTES_MAX;
use ammonia::{Builder, UrlRelative};
use pulldown_cmark::html::push_html;
use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;
use url::Url;

/// Deeper than any text that people read.
const DEPTH_MAX: usize = 24;
/// Steps of the parser, and characters of text: more would be no page.
const EVENTS_MAX: usize = 100_000;
const TEXT_BYTES_MAX: usize = 512 << 10;
/// The cleaner copies a text anew for each of these in it.
const ESCAPES_MAX: usize = 20_000;
const SCHEMES: [&str; 4] = ["http", "https", "mailto", "nostr"];
const TAGS: [&str; 25] = [
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
    "sub",
    "sup",
];
const CUT: &str = "<p>The rest is too long to be shown here.</p>";

static CLEANER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut cleaner = Builder::empty();
    cleaner
        .tags(HashSet::from(TAGS))
        .tag_attributes(HashMap::from([("a", HashSet::from(["href"]))]))
        .url_schemes(HashSet::from(SCHEMES))
        .url_relative(UrlRelative::Deny)
        .link_rel(Some("nofollow noopener noreferrer"));
    cleaner
});

/// Text as it is, escaped.
pub(super) fn plain(text: &str) -> String {
    let block = Tag::CodeBlock(CodeBlockKind::Indented);
    let end = Event::End(block.to_end());
    let mut out = String::new();
    let text = Event::Text(CowStr::from(readable(text)));
    push_html(&mut out, [Event::Start(block), text, end].into_iter());
    out
}

pub(super) fn html(text: &str) -> String {
    if text.matches(['&', '<', '>']).count() > ESCAPES_MAX {
        return plain(text);
    }
    let text = readable(text);
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut tamed = Tamed::default();
    let mut events = Vec::new();
    let mut cut = false;
    for event in Parser::new_ext(&text, options) {
        tamed.take(event, &mut events);
        if events.len() > EVENTS_MAX || tamed.text_bytes > TEXT_BYTES_MAX {
            cut = true;
            break;
        }
    }
    tamed.close(&mut events);
    let mut out = String::new();
    push_html(&mut out, events.into_iter());
    let mut out = CLEANER.clean(&out).to_string();
    if cut {
        out.push_str(CUT);
    }
    out
}

/// Without what turns the direction of the text around it or steers a terminal it is pasted into.
fn readable(text: &str) -> String {
    let hidden = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.replace("\r\n", "\n").chars().filter(|c| !hidden(*c)).collect()
}

/// What is open, innermost last.
#[derive(Default)]
struct Tamed {
    open: Vec<Open>,
    /// How many of those are written.
    depth: usize,
    /// HTML, collected until its end is known.
    raw: Option<String>,
    text_bytes: usize,
    links: usize,
}

struct Open {
    /// None if the tag itself is left out.
    end: Option<TagEnd>,
    is_link: bool,
    /// For a link without words: where it leads.
    target: Option<String>,
    text_bytes_before: usize,
}

impl Tamed {
    fn take<'t>(&mut self, event: Event<'t>, out: &mut Vec<Event<'t>>) {
        match event {
            Event::Start(Tag::HtmlBlock) => self.raw = Some(String::new()),
            Event::End(TagEnd::HtmlBlock) => {
                let raw = self.raw.take().unwrap_or_default();
                self.block(&raw, out);
            }
            Event::Start(tag) => self.start(tag, out),
            Event::End(_) => self.end(out),
            Event::Html(html) => match &mut self.raw {
                Some(raw) => raw.push_str(&html),
                None => self.text(CowStr::from(stripped(&html)), out),
            },
            Event::InlineHtml(html) if is_break(&html) => out.push(Event::HardBreak),
            Event::InlineHtml(_) => {}
            Event::Text(text) if self.raw.is_none() => self.text(text, out),
            Event::Text(text) => self.raw.iter_mut().for_each(|raw| raw.push_str(&text)),
            Event::Code(text) => {
                self.text_bytes += text.len();
                out.push(Event::Code(text));
            }
            Event::TaskListMarker(done) => {
                self.text(CowStr::from(if done { "☑ " } else { "☐ " }), out);
            }
            Event::SoftBreak | Event::HardBreak | Event::Rule => out.push(event),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.text(text, out),
            Event::FootnoteReference(_) => {}
        }
    }

    fn text<'t>(&mut self, text: CowStr<'t>, out: &mut Vec<Event<'t>>) {
        self.text_bytes += text.len();
        out.push(Event::Text(text));
    }

    /// A block of HTML is a paragraph of its words.
    fn block(&mut self, raw: &str, out: &mut Vec<Event<'_>>) {
        let text = stripped(raw);
        let text = text.trim();
        if !text.is_empty() {
            out.push(Event::Start(Tag::Paragraph));
            self.text(CowStr::from(text.to_owned()), out);
            out.push(Event::End(TagEnd::Paragraph));
        }
    }

    fn start<'t>(&mut self, tag: Tag<'t>, out: &mut Vec<Event<'t>>) {
        let (tag, target) = tamed(tag, self.links > 0);
        let is_link = target.is_some();
        // Parts of a table are counted with it: one without its cells would be torn.
        let fits = self.depth < DEPTH_MAX || is_part(tag.as_ref());
        let end = tag.as_ref().filter(|_| fits).map(Tag::to_end);
        if let (Some(tag), Some(_)) = (tag, &end) {
            self.depth += 1;
            self.links += usize::from(is_link);
            out.push(Event::Start(tag));
        }
        let is_link = is_link && end.is_some();
        self.open.push(Open { end, is_link, target, text_bytes_before: self.text_bytes });
    }

    fn end(&mut self, out: &mut Vec<Event<'_>>) {
        let Some(open) = self.open.pop() else { return };
        let Some(end) = open.end else { return };
        if let (true, Some(target)) = (open.text_bytes_before == self.text_bytes, open.target) {
            self.text(CowStr::from(target), out);
        }
        self.depth -= 1;
        self.links -= usize::from(open.is_link);
        out.push(Event::End(end));
    }

    fn close(&mut self, out: &mut Vec<Event<'_>>) {
        while !self.open.is_empty() {
            self.end(out);
        }
    }
}

/// What of a tag is kept, and where it leads if it is a link.
fn tamed(tag: Tag<'_>, in_link: bool) -> (Option<Tag<'_>>, Option<String>) {
    let tag = match tag {
        // The page has one title of its own, and a heading above this text.
        Tag::Heading { level, .. } => {
            let level = match level {
                HeadingLevel::H1 => HeadingLevel::H3,
                HeadingLevel::H2 => HeadingLevel::H4,
                HeadingLevel::H3 => HeadingLevel::H5,
                _ => HeadingLevel::H6,
            };
            Tag::Heading { level, id: None, classes: Vec::new(), attrs: Vec::new() }
        }
        Tag::Link { link_type, dest_url, .. } => {
            let Some(target) = target(&dest_url).filter(|_| !in_link) else { return (None, None) };
            let (title, id) = (CowStr::from(""), CowStr::from(""));
            let dest_url = CowStr::from(target.clone());
            return (Some(Tag::Link { link_type, dest_url, title, id }), Some(target));
        }
        Tag::CodeBlock(_) => Tag::CodeBlock(CodeBlockKind::Indented),
        Tag::BlockQuote(_) => Tag::BlockQuote(None),
        Tag::Table(columns) => Tag::Table(columns),
        Tag::Paragraph
        | Tag::List(_)
        | Tag::Item
        | Tag::TableHead
        | Tag::TableRow
        | Tag::TableCell
        | Tag::Emphasis
        | Tag::Strong
        | Tag::Strikethrough => tag,
        _ => return (None, None),
    };
    (Some(tag), None)
}

const fn is_part(tag: Option<&Tag<'_>>) -> bool {
    matches!(tag, Some(Tag::TableHead | Tag::TableRow | Tag::TableCell | Tag::Item))
}

/// Whole addresses only: there is no file here that a relative one could lead to.
fn target(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|_| text.len() <= HREF_BYTES_MAX)?;
    SCHEMES.contains(&url.scheme()).then(|| url.to_string())
}

fn is_break(html: &str) -> bool {
    html.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("<br"))
}

/// The words of a piece of HTML. It is escaped afterwards, so being wrong about a tag is no danger.
fn stripped(html: &str) -> String {
    let start = html.trim_start().get(..7).unwrap_or_default().to_ascii_lowercase();
    if start.starts_with("<script") || start.starts_with("<style") {
        return String::new();
    }
    let mut out = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        out.push_str(before);
        let end = if tag.starts_with("!--") { "-->" } else { ">" };
        rest = tag.split_once(end).map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
