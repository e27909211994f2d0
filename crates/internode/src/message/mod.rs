//! The envelope of a message: its header, and the verb, which decides the form of the payload.
//!
//! ```text
//! message   header, vint payload length, payload
//! header    vint id, be32 creation (ms, low bits), vint expiry (ms after creation), vint verb,
//!           vint flags, parameters
//! parameters  vint count, (vint type, vint length, value)*
//! ```

mod header;
mod parameter;
mod verb;

pub use header::{Header, Message, MessageFlags};
pub use parameter::{Parameter, ParameterKind};
pub use verb::Verb;
