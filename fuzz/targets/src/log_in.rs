//! The target of tokens and certificates with which a client logs in, of password hashes, and of
//! statements that contain passwords.

use std::borrow::Cow;

use espalier_cql::audit::describe;
use espalier_cql::auth::{obfuscate, password::check_hash, plain_credentials};
use espalier_cql::grammar::ast::{Password, RoleStatement, Statement};
use espalier_cql::grammar::parse;
use espalier_runtime::net::tls::ClientCertificate;

use crate::input::Input;

/// The kinds of inputs, by their number. The seeds use them.
pub const KINDS: [fn(&[u8]); 4] = [token, hash, statement, certificate];

/// Minimum length of a password that the shown statement must not contain. A shorter one may occur
/// in it by chance.
const MIN_SECRET_BYTES: usize = 8;

/// Reads a token of SASL PLAIN, a hash, a statement, or a certificate. Input: `KIND`, then the
/// bytes of this kind.
pub fn log_in(data: &[u8]) {
    let mut input = Input(data);
    input.choose(&KINDS)(input.0);
}

fn token(bytes: &[u8]) {
    if let Ok((name, password)) = plain_credentials(bytes) {
        assert!(!name.is_empty() && !password.is_empty());
        assert!(!name.contains('\0') && !password.contains('\0'));
    }
}

fn hash(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = check_hash(text).is_ok();
    }
}

/// Checks that a statement with a password is shown without the password.
fn statement(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let shown = obfuscate(text);
    let _ = describe(text, Some("ks"));
    let Ok(parsed) = parse(text) else { return };
    let Statement::Role(role) = &parsed.statement else { return };
    let (RoleStatement::Create(role) | RoleStatement::Alter(role)) = &**role else { return };
    if let Some(Password::Plain(secret) | Password::Hashed(secret)) = &role.options.password {
        assert!(matches!(shown, Cow::Owned(_)), "{text}");
        let is_rare = secret.len() >= MIN_SECRET_BYTES && text.matches(&**secret).count() == 1;
        assert!(!is_rare || !shown.contains(&**secret), "{text}");
    }
}

fn certificate(bytes: &[u8]) {
    if let Some(identity) = ClientCertificate::from_der(bytes.to_vec()).spiffe_id() {
        assert!(identity.starts_with("spiffe://"));
    }
}
