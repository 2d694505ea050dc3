//! What only a real socket can do to others, besides its behaviour.

use super::invention::unrelated;
use crate::Random;
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tricks {
    pub info: InfoPage,
    pub noise: Noise,
}

/// How NIP-11 is answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum InfoPage {
    /// As the behaviour says.
    #[default]
    Told,
    /// 404.
    Missing,
    /// 500.
    Broken,
    Late(Duration),
    /// The question is taken and never answered.
    Never,
    /// To this address.
    Redirect(String),
    /// A well-made page of so many bytes.
    Long(usize),
    /// 200, and not JSON.
    Nonsense,
}

/// What is on the wire besides the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Noise {
    #[default]
    None,
    /// Texts that are no message, before every answer.
    Garbage,
    /// One frame of so many bytes before every answer.
    Huge(usize),
    /// Events and ends for subscriptions that nobody opened.
    Strangers,
    /// Every byte after the handshake takes so long.
    Drip(Duration),
}

const GARBAGE: [&str; 16] = [
    "",
    "not json",
    "null",
    "{}",
    "[]",
    "[1,2",
    "[\"EVENT\"]",
    "[\"EVENT\",\"x\",{}]",
    "[\"EVENT\",1,2]",
    "[\"EOSE\"]",
    "[\"EOSE\",null]",
    "[\"CLOSED\",7,\"\"]",
    "[\"NEG-MSG\",\"x\",\"zz\"]",
    "[\"OK\",\"short\",\"maybe\"]",
    "[\"AUTH\",{\"challenge\":1}]",
    "[\"EVENT\",\"x\",{\"id\":\"\\ud800\"}]",
];

impl Noise {
    /// What goes before an answer.
    pub(super) fn frames(self, random: &mut Random) -> Vec<Message> {
        match self {
            Self::None | Self::Drip(_) => Vec::new(),
            Self::Garbage => {
                let deep = "[".repeat(10_000);
                let bytes = random.bytes32().to_vec();
                let texts = GARBAGE.iter().copied().chain([deep.as_str()]);
                texts.map(Message::text).chain([Message::binary(bytes)]).collect()
            }
            Self::Huge(bytes) => {
                vec![Message::text(format!("[\"NOTICE\",\"{}\"]", "x".repeat(bytes)))]
            }
            Self::Strangers => {
                let name = format!("{:x}", random.next_u64());
                let event = unrelated(random.below(1_000_000)).to_json();
                let verbs = [
                    format!("[\"EVENT\",\"{name}\",{event}]"),
                    format!("[\"EOSE\",\"{name}\"]"),
                    format!("[\"CLOSED\",\"{name}\",\"rate-limited: not yours\"]"),
                    format!("[\"NEG-MSG\",\"{name}\",\"61\"]"),
                    format!("[\"NEG-ERR\",\"{name}\",\"closed: not yours\"]"),
                    format!("[\"OK\",\"{}\",true,\"\"]", "ab".repeat(32)),
                ];
                verbs.into_iter().map(Message::text).collect()
            }
        }
    }
}
