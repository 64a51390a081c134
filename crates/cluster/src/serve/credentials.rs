//! The cluster's own authority, and what its administrator proves itself with.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::http::{GROUPS, USER};

/// What the server's certificate is for.
const NAMES: [&str; 6] = [
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Why the API server cannot be put on a socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine has no randomness to give.
    #[error("the machine gives no random bytes for a token")]
    Randomness,
    /// A certificate cannot be made.
    #[error("a certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
    /// The certificates make no TLS server.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// The clients' authority cannot be checked against.
    #[error("client certificates cannot be checked")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// The socket cannot be used.
    #[error("the socket cannot be used")]
    Socket(#[from] std::io::Error),
}

/// A fresh authority with a certificate for the server and one for the administrator, and a token
/// that does the same. Their secrets come from the machine, never from the cluster's seed.
pub struct Credentials {
    authority: CertificateDer<'static>,
    authority_pem: String,
    server: (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>),
    client_certificate: String,
    client_key: String,
    token: String,
}

impl Credentials {
    /// New ones.
    ///
    /// # Errors
    ///
    /// If the machine has no randomness, or a certificate cannot be made.
    pub fn generate() -> Result<Self, Error> {
        let mut authority = params(&[])?;
        authority.distinguished_name.push(DnType::CommonName, "aerostat");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate()?;
        let certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let mut server = params(&NAMES)?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate()?;
        let server = server.signed_by(&server_key, &issuer)?;

        let mut client = params(&[])?;
        client.distinguished_name.push(DnType::OrganizationName, GROUPS[0]);
        client.distinguished_name.push(DnType::CommonName, USER);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client_key = KeyPair::generate()?;
        let client = client.signed_by(&client_key, &issuer)?;

        Ok(Self {
            authority: certificate.der().clone(),
            authority_pem: certificate.pem(),
            server: (server.der().clone(), PrivatePkcs8KeyDer::from(server_key.serialize_der())),
            client_certificate: client.pem(),
            client_key: client_key.serialize_pem(),
            token: token()?,
        })
    }

    /// The authority's certificate, PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority_pem
    }

    /// The administrator's certificate, PEM.
    #[must_use]
    pub fn client_certificate(&self) -> &str {
        &self.client_certificate
    }

    /// The administrator's key, PEM. A secret.
    #[must_use]
    pub fn client_key(&self) -> &str {
        &self.client_key
    }

    /// The administrator's token, for `Authorization: Bearer`. A secret.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn server_config(&self) -> Result<Arc<ServerConfig>, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone())?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                // Without a certificate there is still the token.
                .allow_unauthenticated()
                .build()?;
        let (certificate, key) = &self.server;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.clone()], key.clone_key().into())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

fn params(names: &[&str]) -> Result<CertificateParams, Error> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    // For as long as anyone may keep a process running, whatever the machine's clock says.
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2120, 1, 1);
    Ok(params)
}

fn token() -> Result<String, Error> {
    let mut bytes = [0_u8; 24];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| Error::Randomness)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
