//! The nodes of the target, their certificates and their role.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "nodes and certificates are our own")]
#![allow(clippy::disallowed_methods, reason = "the acceptor reads its certificates from files")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, mpsc};

use espalier_cql::auth::{
    Auth, AuthSettings, Authenticator, Authorizer, Login, Superuser, make_superuser,
};
use espalier_cql::{ClientState, PreparedCache, QueryOptions, QueryProcessor};
use espalier_runtime::file::FileSystem;
use espalier_runtime::net::tls::{
    ClientCertificates, Handshake, TlsAcceptor, TlsOptions, TlsVersion,
};
use espalier_runtime::{ShardOptions, block_on, start_shards, sync::Event};
use espalier_server::{ClientEncryption, ServerConfig, ShardServer, SharedState};
use espalier_storage::{Node as Storage, SharedStorage, StorageConfiguration};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType, string::Ia5String,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, version};

use super::client::Encryption;

pub(super) const ROLE: &str = "root";
pub(super) const PASSWORD: &str = "open sesame";
/// Binary logarithm of the number of rounds of the password's hash: few, so that an input takes
/// little time.
const HASH_ROUNDS: u32 = 4;
const IDENTITY: &str = "spiffe://example.org/root";

/// A running node of one shard. It runs until the process ends.
pub(super) struct Node {
    pub address: SocketAddr,
    pub takes_certificates: bool,
}

/// The nodes, and the configurations of clients: four for TLS 1.3, then four for TLS 1.2. Each four
/// are ordered by the number of the certificate: 0 is no certificate, 1 a certificate whose
/// identity has a role, 2 a certificate whose identity has none, and 3 a certificate of a foreign
/// authority.
pub(super) struct Nodes {
    passwords: Node,
    certificates: Node,
    clients: Vec<Arc<ClientConfig>>,
}

impl Nodes {
    pub fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("espalier-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (ours, foreign) = (authority(), authority());
        let truststore = written(&directory, "authority.pem", &ours.pem());
        let pem = written(&directory, "node.pem", &signed(&ours, None));
        let options = |client_certificates| TlsOptions {
            certificate: pem.clone(),
            key: pem.clone(),
            truststore: Some(truststore.clone()),
            client_certificates,
            versions: vec![TlsVersion::V1_2, TlsVersion::V1_3],
            cipher_suites: Vec::new(),
        };
        let load = |options| block_on(TlsAcceptor::load(options)).unwrap();
        let plain = load(options(ClientCertificates::NotAsked));
        let asking = load(options(ClientCertificates::Asked));
        std::fs::remove_dir_all(&directory).unwrap();
        let known = [
            None,
            Some(signed(&ours, Some(IDENTITY))),
            Some(signed(&ours, Some("spiffe://example.org/nobody"))),
            Some(signed(&foreign, Some(IDENTITY))),
        ];
        let clients = [&version::TLS13, &version::TLS12]
            .into_iter()
            .flat_map(|version| known.each_ref().map(|own| client(&ours, own.as_deref(), version)));
        Self {
            clients: clients.collect(),
            passwords: node(Authenticator::Password, plain, Handshake::Optional),
            certificates: node(Authenticator::MutualTlsOrPassword, asking, Handshake::Required),
        }
    }

    pub fn choose(&self, takes_certificates: bool) -> &Node {
        if takes_certificates { &self.certificates } else { &self.passwords }
    }

    /// Returns true if a log-in with the certificate of this number is allowed.
    pub fn knows(&self, certificate: u8) -> bool {
        certificate == 1
    }

    pub fn client_of(&self, encryption: &Encryption) -> Arc<ClientConfig> {
        let version = if encryption.is_version_1_2 { 4 } else { 0 };
        Arc::clone(&self.clients[version + usize::from(encryption.certificate)])
    }
}

fn node(authenticator: Authenticator, acceptor: Arc<TlsAcceptor>, handshake: Handshake) -> Node {
    let auth = Auth::new(AuthSettings {
        authenticator,
        authorizer: Authorizer::Cassandra,
        superuser: Superuser {
            name: Some(ROLE.into()),
            salted_password: Some(espalier_cql::auth::password::hash(PASSWORD, HASH_ROUNDS)),
            password: None,
        },
        ..AuthSettings::default()
    });
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut config = ServerConfig::new(any, 64 << 20);
    config.encryption =
        Some(ClientEncryption { acceptor, handshake, listen: None, shard_aware_listen: None });
    let shared = SharedState::new(config, 1);
    let mut storage = StorageConfiguration::new("node");
    storage.memtables.bytes = 8 << 20;
    storage.commit_log.segment_bytes = 1 << 20;
    let (shared_storage, storage) = (SharedStorage::new(), Arc::new(storage));
    let (ready, is_ready) = mpsc::channel();
    let options = ShardOptions { count: 1, ..ShardOptions::default() };
    let running = start_shards(&options, move |context| {
        let (shared, ready, auth) = (shared.clone(), ready.clone(), Arc::clone(&auth));
        let (storage, shared_storage) = (Arc::clone(&storage), Arc::clone(&shared_storage));
        async move {
            let files = FileSystem::simulated(1);
            let opening = Storage::open(context, files, storage, shared_storage);
            let storage = opening.await.unwrap();
            make_superuser(&storage, &auth).await.unwrap();
            let cache = Arc::new(PreparedCache::default());
            let processor = QueryProcessor::with_auth(storage, cache, auth);
            bind_identity(&processor).await;
            let server = ShardServer::new(&shared, context, processor);
            ready.send(server.listen().unwrap()).unwrap();
            Event::new().wait().await;
        }
    });
    let address = is_ready.recv().unwrap();
    // The node runs until the process ends.
    std::mem::forget(running.unwrap());
    let takes_certificates = authenticator.takes_certificates();
    Node { address, takes_certificates }
}

async fn bind_identity(processor: &QueryProcessor) {
    let (auth, database) = (processor.auth(), processor.database());
    let address = Ipv4Addr::LOCALHOST.into();
    let login = Login::of(auth, database, ROLE, address).await.unwrap();
    let mut client = ClientState { keyspace: None, login: Some(Rc::new(login)) };
    let statement = format!("ADD IDENTITY '{IDENTITY}' TO ROLE '{ROLE}'");
    processor.query(&statement, &mut client, &QueryOptions::default()).await.unwrap();
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

fn written(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Returns a key and its certificate as PEM.
fn signed(authority: &CertifiedIssuer<'static, KeyPair>, identity: Option<&str>) -> String {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(vec!["localhost".into()]).unwrap();
    if let Some(identity) = identity {
        let uri = Ia5String::try_from(identity).unwrap();
        parameters.subject_alt_names.push(SanType::URI(uri));
    }
    let certificate = parameters.signed_by(&key, authority).unwrap();
    format!("{}{}", key.serialize_pem(), certificate.pem())
}

fn client(
    authority: &CertifiedIssuer<'static, KeyPair>,
    own: Option<&str>,
    version: &'static rustls::SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    })
}
