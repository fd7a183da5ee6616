// A placeholder on its way to an admitted host that has no secret, over TLS: with `inspect = "all"`
// it is refused there as everywhere, but for hosts in `pii.bypass`; with "needed" nobody reads it.
#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/privacy/filter.h"
#include "mvm/sys/file.h"

#include "../../../src/sandbox/pii.h"
#include "../../../src/sandbox/secrets.h"
#include "../egress/rig.h"

namespace mvm::sandbox {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kPublic = "93.184.216.34";
constexpr const char* kValue = "sk-real-value-0123456789";

// Prints what it is sent, and answers with it.
constexpr const char* kEcho = R"(
import http.server, ssl, sys
class H(http.server.BaseHTTPRequestHandler):
  def log_message(self, *a): pass
  def do_GET(self):
    text = (self.requestline + '\n' + str(self.headers)).encode(); print(text.decode(), flush=True)
    self.send_response(200); self.end_headers(); self.wfile.write(text)
s = http.server.ThreadingHTTPServer((sys.argv[1], 443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[2], sys.argv[2] + '.key')
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

class InspectAll : public egress::EgressTest {
 protected:
  void start(bool all, const std::vector<std::string>& bypass = {}) {
    own_address(kPublic);
    for (const char* host : {"api.example", "other.example"}) {
      resolver_.add(host, kPublic);
      allow_host(host);
    }
    proto::SecretsConfig secrets;
    secrets.rules.resize(1);
    secrets.rules[0].name = "KEY";
    secrets.rules[0].hosts = {"api.example"};
    secrets.values = {{"KEY", kValue}};
    secrets_ = std::make_shared<const secret::Secrets>(secrets);
    settings_.filters = secret_source(secrets_, {[this](const guard::SecretNotice& notice) {
                                                   notices_.push_back({notice.what, notice.host});
                                                   return true;
                                                 },
                                                 [](const guard::SecretNotice&) {}});
    proto::NetworkConfig network;
    network.inspect_all = all;
    network.pii.bypass = bypass;
    // As the sandbox does.
    settings_.policy.inspect = inspected_for(secrets_.get());
    for (auto& rule : pii_inspection(network)) settings_.policy.inspect.push_back(std::move(rule));
    path_ = certificate("other.example");
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path_, 1 << 20)), path_);
    server_ =
        &serve({"/usr/bin/python3", "-u", "-c", kEcho, kPublic, path_}, {egress::ip(kPublic), 443});
    start_proxy();
  }
  // To the host that the secret is not for; the guest believes whoever answers.
  std::string send_placeholder() {
    const auto exit = guest({"curl", "-sS", "-i", "-k", "-m", "20", "https://other.example/x", "-H",
                             "Authorization: Bearer " + secrets_->all()[0].placeholder});
    return exit.out + exit.err;
  }
  std::string at_the_server() const { return server_->exit().out; }

  using Notice = std::pair<guard::SecretNotice::What, std::string>;
  std::shared_ptr<const secret::Secrets> secrets_;
  std::vector<Notice> notices_;
  std::string path_;
  egress::Program* server_ = nullptr;
};

TEST_F(InspectAll, APlaceholderIsRefusedAtAHostThatNothingElseLooksInto) {
  start(true);
  EXPECT_THAT(send_placeholder(),
              AllOf(HasSubstr("403"), HasSubstr("secret_misuse"), HasSubstr("not for this host")));
  EXPECT_THAT(at_the_server(), IsEmpty());
  EXPECT_THAT(notices_, ElementsAre(Notice{guard::SecretNotice::What::Misused, "other.example"}));
  EXPECT_THAT(told(), Contains(HasSubstr("http deny secret_misuse GET other.example")));
}

TEST_F(InspectAll, WhatIsInBypassPassesUnread) {
  start(true, {"other.example"});
  EXPECT_THAT(send_placeholder(), HasSubstr("200 OK"));
  EXPECT_THAT(at_the_server(), HasSubstr(secrets_->all()[0].placeholder));
  EXPECT_THAT(notices_, IsEmpty());
}

TEST_F(InspectAll, WithoutItOnlyWhatIsNeededIsRead) {
  start(false);
  EXPECT_THAT(send_placeholder(), HasSubstr("200 OK"));
  EXPECT_THAT(at_the_server(), HasSubstr(secrets_->all()[0].placeholder));
  EXPECT_THAT(told(), Not(Contains(HasSubstr("http "))));
}

}
}
