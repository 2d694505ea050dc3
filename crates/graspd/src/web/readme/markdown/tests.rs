use super::*;
use std::time::{Duration, Instant};

#[test]
fn text_keeps_its_shape() {
    let cases = [
        ("# One\n## Two\n#### Four", "<h3>One</h3>\n<h4>Two</h4>\n<h6>Four</h6>\n"),
        ("a **b** ~~c~~", "<p>a <strong>b</strong> <del>c</del></p>\n"),
        ("```rust\nx < 1\n```", "<pre><code>x &lt; 1\n</code></pre>\n"),
        ("- [x] done\n- [ ] not", "<ul>\n<li>☑ done</li>\n<li>☐ not</li>\n</ul>\n"),
        ("a<br>b", "<p>a<br>\nb</p>\n"),
        ("<p align=center><b>Hi</b> & you</p>", "<p>Hi &amp; you</p>\n"),
        ("<!-- a > b -->", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(html(text), expected, "{text}");
    }
    let shown = plain("<b>\u{1b}x \u{202e}y\r\n");
    assert_eq!(shown, "<pre><code>&lt;b&gt;x y\n</code></pre>\n");
}

#[test]
fn links_lead_to_whole_addresses_or_nowhere() {
    let rel = "rel=\"nofollow noopener noreferrer\"";
    for (text, expected) in [
        ("[x](https://a.example)", format!("<a href=\"https://a.example/\" {rel}>x</a>")),
        ("[x](mailto:a@b.example)", format!("<a href=\"mailto:a@b.example\" {rel}>x</a>")),
        ("[x](nostr:npub1x)", format!("<a href=\"nostr:npub1x\" {rel}>x</a>")),
        (
            "<https://a.example>",
            format!("<a href=\"https://a.example/\" {rel}>https://a.example</a>"),
        ),
        ("[![ci](b.svg)](http://c.example)", format!("<a href=\"http://c.example/\" {rel}>ci</a>")),
        (
            "[![](b.svg)](http://c.example)",
            format!("<a href=\"http://c.example/\" {rel}>http://c.example/</a>"),
        ),
        ("[x](docs/a.md)", "x".to_owned()),
        ("[x](//evil.example)", "x".to_owned()),
        ("[x](javascript:alert(1))", "x".to_owned()),
        ("[x](<java\tscript:alert(1)>)", "x".to_owned()),
        ("[x](data:text/html,a)", "x".to_owned()),
        ("[x](file:///etc/passwd)", "x".to_owned()),
        ("![words](https://t.example/p.png)", "words".to_owned()),
    ] {
        assert_eq!(html(text), format!("<p>{expected}</p>\n"), "{text}");
    }
}

#[test]
fn nothing_of_theirs_is_a_tag() {
    for text in [
        "<script>alert(1)</script>",
        "x <script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "x <img src=x onerror=alert(1)>",
        "<svg><style><img src=x onerror=alert(1)></style></svg>",
        "<details open ontoggle=alert(1)>",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<<b>script>alert(1)<</b>/script>",
        "<div><!-- --><script>alert(1)</script>",
        "[x](https://a.example \"onmouseover=alert(1)\")",
        "[x](https://a.example/\"onclick=alert(1))",
        "# x {#id .class onclick=alert(1)}",
        "`<script>`",
        "```\"><script>\nx\n```",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "<math><mtext><table><mglyph><style><!--</style><img onerror=alert(1)>",
        "<form><input name=innerHTML><button formaction=javascript:alert(1)>",
        "| <script> |\n|---|\n| <img onerror=x> |",
    ] {
        let out = html(text);
        for tag in out.split('<').skip(1) {
            let name = tag.trim_start_matches('/').split([' ', '>']).next().unwrap();
            assert!(TAGS.contains(&name), "{text} gave {out}");
            let rest = tag.split('>').next().unwrap();
            let plain = !rest.contains(' ') || rest.starts_with("a href=\"https://a.example/");
            assert!(plain, "{text} gave {out}");
            assert!(!rest.contains("\" on"), "{text} gave {out}");
        }
    }
}

#[test]
fn hostile_text_costs_little_and_stays_shallow() {
    let size = 256 << 10;
    let repeated = |piece: &str| piece.repeat(size / piece.len());
    let table =
        format!("{}\n{}\n{}", "|x".repeat(20_000), "|-".repeat(20_000), "|\n".repeat(60_000));
    let nested: String = (0..700).map(|n| format!("{}- x\n", " ".repeat(2 * (n % 350)))).collect();
    let mut hostile: Vec<String> = [
        ">",
        "> ",
        "[",
        "]",
        "[a](",
        "![",
        "*",
        "**a ",
        "*a _b ",
        "_",
        "|",
        "|-",
        "`",
        "` `` ",
        "<",
        "<b>",
        "<!--",
        "<a ",
        "</p>",
        "&",
        "\\",
        "#",
        "# ",
        "- ",
        "1. ",
        "+\n",
        "~",
        "~~a",
        "[a]: b\n",
        "[a]\n",
        "[[]()",
        "(",
        "<http://a.example>",
        "\t",
        "***",
        "---\n",
        "a\n\n",
        "http://a.example ",
        "- [ ] x\n",
        "```\n",
        "<script>\n",
        "a**b",
        "\u{301}",
        "=\n",
        "x\\\n",
    ]
    .iter()
    .map(|piece| repeated(piece))
    .collect();
    hostile.extend([table, nested]);
    for text in hostile {
        let start: String = text.chars().take(12).collect();
        let began = Instant::now();
        let out = html(&text);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(10), "{start:?} took {took:?}");
        assert!(out.len() < 8 << 20, "{start:?} became {} bytes", out.len());
        let (mut depth, mut deepest) = (0_usize, 0);
        for tag in
            out.split('<').skip(1).filter(|tag| !tag.starts_with("br") && !tag.starts_with("hr"))
        {
            depth = if tag.starts_with('/') { depth - 1 } else { depth + 1 };
            deepest = deepest.max(depth);
        }
        assert_eq!(depth, 0, "{start:?} is not closed");
        assert!(deepest < 2 * DEPTH_MAX, "{start:?} is {deepest} deep");
    }
}

#[test]
fn what_is_too_long_says_so() {
    let out = html(&"*a* ".repeat(64 << 10));
    assert!(out.ends_with(CUT), "{}", out.len());
}
