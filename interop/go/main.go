// The Go driver's programs of the interop tests: `registers` (test_conditional_drivers.py) and
// `login` (test_driver_security.py).
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/gocql/gocql"
)

func main() {
	if len(os.Args) < 4 {
		fail("login HOST PORT | registers HOST PORT SECONDS CLIENTS FILE")
	}
	cluster := clusterOf(os.Args[2], os.Args[3])
	switch os.Args[1] {
	case "login":
		login(cluster)
	case "registers":
		registers(cluster, os.Args[4:])
	default:
		fail("there is no command " + os.Args[1])
	}
}

func fail(reason string) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}

func must(err error) {
	if err != nil {
		fail(err.Error())
	}
}

// clusterOf returns the configuration that the arguments and the environment ask for.
func clusterOf(host, port string) *gocql.ClusterConfig {
	number, err := strconv.Atoi(port)
	must(err)
	cluster := gocql.NewCluster(host)
	cluster.Port = number
	cluster.Timeout = 20 * time.Second
	cluster.ConnectTimeout = 20 * time.Second
	// A node that was killed is back within a second.
	cluster.ReconnectInterval = 100 * time.Millisecond
	cluster.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{
		MaxRetries: 50, Interval: 100 * time.Millisecond,
	}
	if user := os.Getenv("CQL_USER"); user != "" {
		cluster.Authenticator = gocql.PasswordAuthenticator{
			Username: user, Password: os.Getenv("CQL_PASSWORD"),
		}
	}
	if authority := os.Getenv("CQL_AUTHORITY"); authority != "" {
		cluster.SslOpts = &gocql.SslOptions{
			Config: tlsOf(authority), EnableHostVerification: true,
		}
	}
	return cluster
}

func tlsOf(authority string) *tls.Config {
	text, err := os.ReadFile(authority)
	must(err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		fail("no certificate in " + authority)
	}
	config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	switch os.Getenv("CQL_TLS") {
	case "1.2":
		config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	case "1.3":
		config.MinVersion, config.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
	}
	if own := os.Getenv("CQL_CERTIFICATE"); own != "" {
		pair, err := tls.LoadX509KeyPair(own, own)
		must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// login connects, and prints the node's version or the driver's error.
func login(cluster *gocql.ClusterConfig) {
	session, err := cluster.CreateSession()
	if err != nil {
		fmt.Printf("error: %v\n", err)
		return
	}
	defer session.Close()
	var version string
	must(session.Query("SELECT release_version FROM system.local").Scan(&version))
	fmt.Println("ok:", version)
}
