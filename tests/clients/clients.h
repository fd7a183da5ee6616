#pragma once
// What tests of clients share: programs in the guest's place (tests/unit/egress/rig.h), with the
// environment and the bundle of certificates that the agent gives commands in a sandbox.

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/guard/secret_filter.h"
#include "mvm/sys/file.h"

#include "../unit/egress/rig.h"
#include "trust.h"

namespace mvm::egress {

// Where the distribution's own programs are found, and nothing of the user's.
inline constexpr const char* kPath = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";

class ClientWorld : public EgressTest {
 protected:
  // A name with an address of its own, and a certificate (DIR/HOST.pem) that the proxy trusts.
  void own_host(const std::string& host, const std::string& address) {
    own_address(address);
    resolver_.add(host, address);
    certificates_ += sys::read_text_file(certificate(host), 1 << 20);
    settings_.trust = crypto::TrustStore::from_pem(certificates_, "the test's servers");
  }

  // From here on the proxy puts these values in place of their placeholders, and lets requests to
  // their hosts through. One placeholder each, in the rules' order.
  std::vector<std::string> use_secrets(const std::vector<proto::SecretRule>& rules,
                                       const std::string& value) {
    proto::SecretsConfig config;
    config.rules = rules;
    for (const proto::SecretRule& rule : rules) config.values[rule.name] = value;
    const auto secrets = std::make_shared<secret::Secrets>(config);
    settings_.filters.push_back(std::make_shared<guard::SecretSource>(
        secrets, guard::SecretSource::Watcher{[](const guard::SecretNotice&) { return true; },
                                              [](const guard::SecretNotice&) {}}));
    std::vector<policy::SecretBinding> bindings;
    std::vector<std::string> placeholders;
    for (const secret::Secret& secret : secrets->all()) {
      bindings.push_back(secret.binding);
      placeholders.push_back(secret.placeholder);
    }
    settings_.policy.inspect = policy::inspected_for(bindings);
    return placeholders;
  }

  // As in a sandbox: the image's bundle, the agent's additions to it, and its variables.
  void start() {
    start_proxy();
    const std::string root = directory() + "/image";
    sys::make_directories(root + "/etc/ssl/certs", 0755);
    sys::make_directories(directory() + "/home", 0755);
    write(root + "/etc/ssl/certs/ca-certificates.crt", "");
    const auto variables = guest::trust_authority(proxy_->authority_pem(), root);
    // The bundle is where the system's own is, for programs that know no variable.
    prefix_ = {"unshare", "-m", "sh", "-ec", R"(
      mount --bind "$0" /etc/ssl/certs/ca-certificates.crt; exec "$@")", root + "/etc/ssl/certs/ca-certificates.crt"};
    prefix_.insert(prefix_.end(), {"env", "-i", kPath, "HOME=" + directory() + "/home", "LANG=C",
                                   "NODE_PATH=/usr/share/nodejs", "GIT_TERMINAL_PROMPT=0"});
    for (const auto& [name, value] : variables) prefix_.push_back(name + "=" + value);
  }
  Program::Exit run(const std::vector<std::string>& words) {
    std::vector<std::string> argv = prefix_;
    argv.insert(argv.end(), words.begin(), words.end());
    return guest(argv);
  }
  // By Node, with npm's libraries.
  Program::Exit npm_node(std::vector<std::string> words) {
    words.insert(words.begin(), {"env", "NODE_PATH=" + npm_libraries()});
    return run(words);
  }
  Program::Exit sh(const std::string& script) { return run({"sh", "-ec", script, directory()}); }

  void write(const std::string& path, const std::string& text) const {
    sys::make_directories(path.substr(0, path.rfind('/')), 0755);
    std::ofstream(path) << text;
  }
  // Does something on the test's own side.
  void prepare(const std::string& script) {
    Program program(loop_, {"sh", "-ec", "cd \"$0\"; export HOME=\"$0\"; " + script, directory()},
                    -1, "");
    program.end_input();
    ASSERT_TRUE(eventually([&] { return program.ended(); }));
    ASSERT_EQ(program.exit().code, 0) << program.exit().err;
  }
  // The folder of npm's libraries, where tests/clients/prepare has fetched them.
  static std::string npm_libraries() {
    static const std::string kFolder = [] {
      std::string out;
      FILE* const pipe = ::popen(MVM_CLIENTS "/prepare --have", "r");  // NOLINT: no other's words
      if (pipe == nullptr) return out;
      for (int c = 0; (c = std::fgetc(pipe)) != EOF && c != '\n';) out += static_cast<char>(c);
      ::pclose(pipe);
      return out;
    }();
    return kFolder;
  }
  // Whether a program is here; those that nobody has are no failure.
  bool has(const std::string& test) const {
    return std::system(("{ " + test + "; } >/dev/null 2>&1").c_str()) == 0;  // NOLINT
  }

 private:
  std::string certificates_;
  std::vector<std::string> prefix_;
};

}

#define NEEDS_NPM() \
  if (npm_libraries().empty()) GTEST_SKIP() << "not here: what tests/clients/prepare fetches"

#define NEEDS(test) \
  if (!has(test)) GTEST_SKIP() << "not here: " << (test)
