use super::*;
use grasp_core::Identifier;

const NPUB: &str = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6";

fn route(method: &str, place: &str, headers: &[(&str, &str)], base: &str) -> Route {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name: header::HeaderName = name.parse().unwrap();
        map.append(name, value.parse().unwrap());
    }
    // What is not even a request target is refused by the HTTP parser.
    let Ok(uri) = place.parse() else { return Route::NotFound };
    Route::parse(&method.parse().unwrap(), &uri, &map, base)
}

fn get(place: &str) -> Route {
    route("GET", place, &[], "")
}

fn repo(identifier: &str) -> RepoId {
    let identifier: Identifier = identifier.parse().unwrap();
    RepoId { owner: PubKey::from_npub(NPUB).unwrap(), identifier }
}

#[test]
fn the_root_is_three_things() {
    let upgrade = [("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")];
    assert_eq!(route("GET", "/", &upgrade, ""), Route::Socket);
    let info = [("accept", "text/html, Application/Nostr+JSON;q=0.9")];
    assert_eq!(route("GET", "/", &info, ""), Route::Info);
    assert_eq!(route("HEAD", "/", &[], ""), Route::Landing);
    assert_eq!(route("POST", "/", &[], ""), Route::NotAllowed("GET, HEAD, OPTIONS"));
}

#[test]
fn everything_lives_below_the_base_path() {
    for root in ["/grasp", "/grasp/"] {
        assert_eq!(route("GET", root, &[], "/grasp"), Route::Landing);
    }
    assert_eq!(route("GET", "/grasp/healthz", &[], "/grasp"), Route::Health);
    let page = format!("/grasp/{NPUB}/acme.git");
    assert_eq!(route("GET", &page, &[], "/grasp"), Route::Repository(repo("acme")));
    let above = format!("/{NPUB}/acme.git");
    for outside in ["/", "/graspx", "/metrics", "/.well-known/nostr.json", "/gras", &above] {
        assert_eq!(route("GET", outside, &[], "/grasp"), Route::NotFound, "{outside}");
    }
    assert_eq!(route("GET", "/.well-known/nostr.json", &[], ""), Route::Names);
}

#[test]
fn the_api_and_the_pages_have_their_places() {
    let id = "ab".repeat(32);
    for (place, asked) in [
        ("status".to_owned(), Api::Status),
        ("relays".to_owned(), Api::Relays(Page::default())),
        (
            "relays?limit=7&after=wss%3A%2F%2Fx.example".to_owned(),
            Api::Relays(Page::new(Some("wss://x.example".into()), Some(7))),
        ),
        ("repos?after=".to_owned(), Api::Repos(Page::default())),
        (format!("repos?after=17-{id}"), Api::Repos(Page::new(Some(format!("17-{id}")), None))),
        (String::new(), Api::Index),
        ("purgatory?limit=100000".to_owned(), Api::Purgatory(Page::new(None, Some(500)))),
        (format!("repos/{NPUB}/a%20b"), Api::Repo(repo("a b"))),
        (format!("events/{id}"), Api::Event(id.parse().unwrap())),
        ("live".to_owned(), Api::Live),
    ] {
        assert_eq!(get(&format!("/api/v1/{place}")), Route::Api(asked), "{place}");
    }
    assert_eq!(get("/api/v1"), Route::Api(Api::Index));
    for place in ["", "v2/status", "v1/status/x", "v1/nothing", "v1/hunts/"] {
        assert_eq!(get(&format!("/api/{place}")), Route::NoApi, "{place}");
    }
    assert_eq!(get("/relays"), Route::Relays(Page::default()));
    assert_eq!(get("/repos?limit=0&after="), Route::Repos(Page::new(None, Some(1))));
    assert_eq!(get("/purgatory?limit=-1"), Route::Purgatory(Page::default()));
    assert_eq!(get("/assets/../x"), Route::Asset("../x".into()), "a name, never a path");
    assert_eq!(route("POST", "/api/v1/status", &[], ""), Route::NotAllowed("GET, HEAD, OPTIONS"));
}

#[test]
fn what_the_api_cannot_understand_is_refused_with_the_reason() {
    let id = "ab".repeat(32);
    for (place, why) in [
        ("repos?limit=abc".to_owned(), "limit must be a whole number from 1 to 500"),
        ("relays?limit=0".to_owned(), "limit must be a whole number from 1 to 500"),
        ("purgatory?limit=-1".to_owned(), "limit must be a whole number from 1 to 500"),
        ("purgatory?limit=".to_owned(), "limit must be a whole number from 1 to 500"),
        ("repos?limit=1&limit=2".to_owned(), "limit is given twice"),
        ("repos?after=x%2Fy".to_owned(), "after must be what the part before gave as next"),
        ("relays?after=x".to_owned(), "after must be what the part before gave as next"),
        ("purgatory?after=x".to_owned(), "after must be what the part before gave as next"),
        ("repos?after=%zz".to_owned(), "after has a broken percent escape"),
        ("repos?lmit=5".to_owned(), "unknown parameter; this resource has the parameters limit"),
        ("status?limit=5".to_owned(), "unknown parameter; this resource has no parameters"),
        (format!("events/{id}?x"), "unknown parameter; this resource has no parameters"),
        ("events/zz".to_owned(), "the id of an event is 64 hexadecimal digits"),
        ("repos/x".to_owned(), "/api/v1/repos/<npub>/<identifier>"),
        ("repos/x/y".to_owned(), "this is not an npub"),
        (format!("repos/{NPUB}/%zz"), "the identifier has a broken percent escape"),
        (format!("repos/{NPUB}/"), "/api/v1/repos/<npub>/<identifier>"),
    ] {
        let Route::BadApi(said) = get(&format!("/api/v1/{place}")) else { panic!("{place}") };
        assert!(said.contains(why), "{place}: {said}");
    }
}

#[test]
fn preflight_is_answered_anywhere() {
    for place in ["/no/such/place", "/prs/x", "/", &format!("/{NPUB}/a.git/git-upload-pack")] {
        assert_eq!(route("OPTIONS", place, &[], "/grasp"), Route::Preflight, "{place}");
    }
}

#[test]
fn a_repository_has_a_page_and_three_places_for_git() {
    for method in ["GET", "HEAD"] {
        for place in [".git", ".git/", ".git?x=y"] {
            let found = route(method, &format!("/{NPUB}/acme{place}"), &[], "");
            assert_eq!(found, Route::Repository(repo("acme")), "{method} {place}");
        }
        let place = format!("/{NPUB}/acme.git/info/refs?service=git-upload-pack");
        let refs = Step::InfoRefs(Service::UploadPack);
        assert_eq!(route(method, &place, &[], ""), Route::Git(repo("acme"), refs));
    }
    for service in [Service::UploadPack, Service::ReceivePack] {
        let place = format!("/{NPUB}/acme.git/{}", service.name());
        let kind = format!("Application/X-{}-request; charset=x", service.name());
        let found = route("POST", &place, &[("content-type", &kind)], "");
        assert_eq!(found, Route::Git(repo("acme"), Step::Post(service)));
        assert_eq!(route("GET", &place, &[], ""), Route::NotAllowed("POST, OPTIONS"));
        for other in ["", "text/plain", "application/x-git-upload-archive-request"] {
            let found = route("POST", &place, &[("content-type", other)], "");
            assert_eq!(found, Route::WrongType(service), "{other}");
        }
    }
    for place in ["", "/", "/info/refs?service=git-upload-pack"] {
        let found = route("POST", &format!("/{NPUB}/acme.git{place}"), &[], "");
        assert_eq!(found, Route::NotAllowed("GET, HEAD, OPTIONS"), "{place}");
    }
}

#[test]
fn the_service_may_stand_anywhere_in_the_query() {
    let asked = |query: &str| get(&format!("/{NPUB}/acme.git/info/refs{query}"));
    let push = Route::Git(repo("acme"), Step::InfoRefs(Service::ReceivePack));
    for query in [
        "?service=git-receive-pack",
        "?a=b&service=git-receive-pack&c",
        "?&&service=git-receive-pack",
        "?service=git%2Dreceive%2Dpack",
        "?service=%67it-receive-pac%6b",
    ] {
        assert_eq!(asked(query), push, "{query}");
    }
    for query in [
        "",
        "?",
        "?service",
        "?service=",
        "?service=git-upload-archive",
        "?xservice=git-receive-pack",
        "?service=git-receive-pack%00",
    ] {
        assert_eq!(asked(query), Route::DumbHttp, "{query}");
    }
}

#[test]
fn identifiers_are_decoded_exactly_once() {
    for (escaped, identifier) in [
        ("acme", "acme"),
        ("Acme%20Tools", "Acme Tools"),
        ("a%3ab", "a:b"),
        ("a%3Ab", "a:b"),
        ("a:b", "a:b"),
        ("a+b", "a+b"),
        ("%F0%9F%8D%95", "🍕"),
        ("%f0%9f%8d%95", "🍕"),
        ("100%25", "100%"),
        ("%252e%252e%252f", "%2e%2e%2f"),
        ("a.git", "a.git"),
        ("-x", "-x"),
        ("...", "..."),
        ("%61cme", "acme"),
    ] {
        let found = get(&format!("/{NPUB}/{escaped}.git"));
        assert_eq!(found, Route::Repository(repo(identifier)), "{escaped}");
    }
    let found = get(&format!("/{NPUB}/acme%2Egit"));
    assert_eq!(found, Route::Repository(repo("acme")), "the ending is part of the name");
}

#[test]
fn a_doubled_first_slash_is_only_spelling() {
    assert_eq!(get(&format!("//{NPUB}/acme.git")), Route::Repository(repo("acme")));
    let based = route("GET", &format!("/grasp//{NPUB}/acme.git"), &[], "/grasp");
    assert_eq!(based, Route::Repository(repo("acme")));
    for place in ["///{}/acme.git", "/{}//acme.git", "/{}/acme.git//", "/{}/acme.git//info/refs"] {
        assert_eq!(get(&place.replace("{}", NPUB)), Route::NotFound, "{place}");
    }
}

/// Whatever the path, what comes out names one file that is a single segment, or nothing.
#[test]
fn no_hostile_path_leads_anywhere() {
    let upper = NPUB.to_uppercase();
    let hex = "3f".repeat(32);
    let long = "a".repeat(252);
    let names = [
        "",
        ".",
        "..",
        "%2e",
        "%2E%2e",
        "%2e%2e%2f",
        "a%2fb",
        "a%2Fb",
        "..%2f..%2fetc%2fpasswd",
        "a%5cb",
        "..%5c..",
        "%00",
        "a%00",
        "a%0a",
        "a%0d%0aX:y",
        "%7f",
        "%1b[31m",
        "%c2%85",
        "%ff",
        "%c0%ae%c0%ae",
        "%ed%a0%80",
        "%",
        "%2",
        "%zz",
        "%%32%65",
        &long,
    ];
    for name in names {
        for rest in ["", "/", "/info/refs?service=git-upload-pack", "/git-upload-pack"] {
            let place = format!("/{NPUB}/{name}.git{rest}");
            assert_eq!(get(&place), Route::NotFound, "{place}");
        }
    }
    let owners = [
        "",
        ".",
        "..",
        "%2e%2e",
        "npub1",
        &hex,
        &upper,
        "prs",
        "etc",
        &format!("{NPUB}x"),
        &NPUB.replace("w6", "w7"),
        &format!("%6e{}", &NPUB[1..]),
        &format!("prs/{NPUB}"),
    ];
    for owner in owners {
        for place in [format!("/{owner}/acme.git"), format!("/{owner}/acme.git/info/refs")] {
            assert_eq!(get(&place), Route::NotFound, "{place}");
        }
    }
    let rests = [
        "/config",
        "/HEAD",
        "/objects/info/packs",
        "/info/refs/",
        "/info",
        "/info/refs/..",
        "/../other.git",
        "/%69nfo/refs",
        "/info%2frefs",
        "/git-upload-archive",
        "/git-upload-pack/",
        "/.git/config",
        "/objects/00/00",
        "/packed-refs",
    ];
    for rest in rests {
        assert_eq!(get(&format!("/{NPUB}/acme.git{rest}")), Route::NotFound, "{rest}");
    }
    for place in
        [format!("/{NPUB}"), format!("/{NPUB}/"), format!("/{NPUB}/acme"), "/%2e%2e/x".into()]
    {
        assert_eq!(get(&place), Route::NotFound, "{place}");
    }
}

#[test]
fn contributors_have_no_place_here_yet() {
    let kind = [("content-type", "application/x-git-receive-pack-request")];
    for rest in ["", "/info/refs?service=git-receive-pack", "/git-receive-pack"] {
        for method in ["GET", "HEAD", "POST"] {
            let place = format!("/prs/{NPUB}/acme.git{rest}");
            assert_eq!(route(method, &place, &kind, ""), Route::NotFound, "{method} {place}");
        }
    }
}

/// Every short path over an alphabet of trouble: a name that comes out is a name that goes back in.
#[test]
fn whatever_is_served_is_one_name_and_round_trips() {
    let pieces = ["a", ".", "/", "%2f", "%2e", "%00", "%5C", "%25", ".git", "%", "é", "\\"];
    let mut served = 0_u32;
    let count = pieces.len().pow(4);
    for number in 0..count {
        let pick = |at: u32| pieces[number / pieces.len().pow(at) % pieces.len()];
        let name: String = (0..4).map(pick).collect();
        if let Route::Repository(found) = get(&format!("/{NPUB}/{name}.git")) {
            let identifier = found.identifier.as_str();
            assert!(!identifier.contains(['/', '\\', '\0']), "{name}");
            assert!(identifier != "." && identifier != "..", "{name}");
            let again = get(&format!("/{NPUB}/{}.git", found.identifier.percent_encoded()));
            assert_eq!(again, Route::Repository(found), "{name}");
            served += 1;
        }
    }
    assert!(served > 100, "{served} of {count}");
}
