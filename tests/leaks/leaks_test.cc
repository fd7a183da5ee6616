// Property: whatever words, variables, values of secrets and input a command or a sandbox is given,
// none of it gets into the audit log, a log, a figure, the database, any other file of mvm's, or
// into what mvm says of something that fails. Generated and seeded; through the program itself, a
// daemon, the sandbox's multiplexer and its audit trail, and the agent. (Of traffic:
// tests/unit/sandbox/leak_test.cc; with a whole sandbox around it: tests/lab/suite/test_leaks.py.)
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "mvm/api/client.h"
#include "mvm/base/text.h"
#include "mvm/daemon/daemon.h"
#include "mvm/image/import.h"
#include "mvm/secret/text.h"
#include "mvm/store/images.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"

namespace mvm::leaks {
namespace {

using std::chrono::milliseconds;

// Values, each of which has a middle that is nowhere else.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::string value(const std::string& kind) {
    std::string core;
    for (int i = 0; i < 14; ++i) core += pick("abcdefghijkmnpqrstuvwxyz23456789");
    cores_[core] = kind;
    return around() + core + around();
  }
  // For who takes no other bytes.
  std::string plain(const std::string& kind) {
    const std::string text = value(kind);
    std::string out;
    for (const char c : text)
      if (is_alnum(c)) out += c;
    return out;
  }
  size_t below(size_t bound) { return random_() % bound; }
  // By kind, what of it is in the text, in any usual writing.
  std::vector<std::string> found_in(std::string_view text) const {
    std::vector<std::string> out;
    for (const auto& [core, kind] : cores_)
      for (const std::string& written : writings(core))
        if (text.find(written) != text.npos) out.push_back(kind + " " + core);
    return out;
  }
  size_t size() const { return cores_.size(); }

 private:
  static bool is_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  }
  char pick(std::string_view from) { return from[random_() % from.size()]; }
  // What may stand beside it.
  std::string around() {
    static const std::vector<std::string> pieces{
        "",  "\"", "'",        "\n", "\\",   "%41",   "=", " ", "-",    "--",
        "{", "\t", "\x1b[31m", "ü",  "日本", "$HOME", "`", ";", "\x01", "\xff"};
    std::string out;
    for (size_t i = below(4); i > 0; --i) out += pieces[below(pieces.size())];
    if (below(12) == 0) out += std::string(3000, 'x');
    return out;
  }
  static std::vector<std::string> writings(const std::string& core) {
    const std::string hexed = hex(as_bytes(core));
    std::string percent;
    for (size_t i = 0; i < hexed.size(); i += 2) percent += "%" + hexed.substr(i, 2);
    std::vector<std::string> out{core, hexed, percent};
    for (size_t before = 0; before < 3; ++before) {
      // Without the letters that hold bits of the neighbours.
      const std::string text = secret::base64(std::string(before, 'x') + core);
      out.push_back(text.substr(before == 0 ? 0 : 4, text.size() - (before == 0 ? 4 : 8)));
    }
    return out;
  }

  std::mt19937 random_;
  std::map<std::string, std::string> cores_;
};

class Leaks : public testing::Test {
 protected:
  void SetUp() override {
    paths_.ensure_runtime();
    paths_.ensure_data();
    const std::string kernel = paths_.kernels_dir() + "/plain";
    sys::make_directories(kernel);
    sys::write_file_atomic(kernel + "/vmlinux", as_bytes("no kernel, nobody boots it"));
    sys::write_file_atomic(kernel + "/bundle.json",
                           as_bytes(R"({"name": "plain", "image": "vmlinux", "modules": []})"));
    sys::make_directories(base_.path() + "/root/etc", 0755);
    sys::make_directories(work_, 0755);
    store::Images images(paths_);
    image::import_image(images, base_.path() + "/root", store::parse_image_name("base"));
    log_ = sys::open_file(paths_.data() + "/loud.log", O_WRONLY | O_CREAT | O_CLOEXEC);
    daemon_.emplace(daemon::DaemonOptions{.paths = paths_,
                                          .agent = as_bytes("no agent"),
                                          .sandbox_executable = sys::own_executable(),
                                          .version = "test",
                                          .idle = milliseconds(0),
                                          .log = obs::Log(log_.get(), obs::Level::Debug)});
    thread_ = std::thread([this] { daemon_->run(); });
  }
  void TearDown() override {
    auto client = api::Client::connect(paths_.daemon_socket());
    for (const auto& sandbox : client->sandboxes(true)) client->remove(sandbox.name, true);
    daemon_->stop();
    thread_.join();
  }

  struct Outcome {
    int code = 0;
    std::string out;
    std::string err;
  };
  Outcome mvm(std::vector<std::string> words, std::vector<std::string> env = {},
              const std::string& input = "") const {
    const sys::Fd in = sys::memory_file("in", 0);
    sys::write_all(in.get(), as_bytes(input));
    ::lseek(in.get(), 0, SEEK_SET);
    const sys::Fd out = sys::memory_file("out", 0);
    const sys::Fd err = sys::memory_file("err", 0);
    sys::SpawnOptions options;
    options.argv = std::move(words);
    options.argv.insert(options.argv.begin(), MVM_PROGRAM);
    options.env = std::move(env);
    for (const std::string& each :
         {std::string("PATH=/usr/bin:/bin"), "HOME=" + work_, "MVM_RUNTIME_DIR=" + paths_.runtime(),
          "MVM_DATA_DIR=" + paths_.data()})
      options.env.push_back(each);
    options.directory = work_;
    options.fds = {{in.get(), 0}, {out.get(), 1}, {err.get(), 2}};
    options.die_with_parent = true;
    const auto status = sys::spawn(options).wait().value();
    return {status.signal != 0 ? -status.signal : status.code, text_of(out.get()),
            text_of(err.get())};
  }
  static std::string text_of(int fd) {
    std::string text(sys::file_size(fd), '\0');
    sys::pread_exact(fd, std::as_writable_bytes(std::span(text)), 0);
    return text;
  }
  // Every file that mvm has, but for disks, which hold what a guest wrote.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> out;
    for (const std::string& folder : {paths_.data(), paths_.runtime()})
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (!entry.is_regular_file() || entry.file_size() > (size_t{64} << 20)) continue;
        std::ifstream file(entry.path(), std::ios::binary);
        out[entry.path()] = std::string(std::istreambuf_iterator<char>(file), {});
      }
    return out;
  }

  sys::TempDir base_;
  store::Paths paths_{base_.path() + "/run", base_.path() + "/data"};
  std::string work_ = base_.path() + "/work";
  sys::Fd log_;
  std::optional<daemon::Daemon> daemon_;
  std::thread thread_;
};

TEST_F(Leaks, NothingThatACommandOrASandboxIsGivenIsWrittenDownOrSaid) {
  Generator made(20261201);
  std::map<std::string, std::string> said;  // by what was done
  const auto fails = [&](const std::vector<std::string>& words,
                         const std::vector<std::string>& env = {}) {
    const Outcome outcome = mvm(words, env);
    EXPECT_NE(outcome.code, 0) << words[0];
    EXPECT_NE(outcome.err, "") << words[0];
    said["error of " + words[0] + " " + words[1]] += outcome.out + outcome.err;
  };

  // ---- a sandbox
  sys::write_file_atomic(
      work_ + "/mvm.toml",
      as_bytes("[env]\nFROM_FILE = \"" + made.plain("environment") +
               "\"\n[secrets]\nKEY = { from = \"env:THE_KEY\", hosts = [\"api.example\"] }\n"));
  const std::vector<std::string> secret{"THE_KEY=" + made.plain("secret")};
  const Outcome up =
      mvm({"up", "box", "--image", "base", "-e", "GIVEN=" + made.value("environment")}, secret);
  ASSERT_EQ(up.code, 0) << up.err;

  // ---- commands in it, and such that cannot be
  for (int round = 0; round < 12; ++round) {
    const std::string name = "V" + std::to_string(round);
    const std::string value = made.value("environment");
    const std::string argument = made.value("argument");
    const Outcome outcome = mvm({"exec", "-i", "-e", name + "=" + value, "box", "--", "/bin/sh",
                                 "-c", "cat >/dev/null; printf %s \"$" + name + "\" \"$1\"; exit 3",
                                 made.value("argument"), argument},
                                {}, made.value("input"));
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    EXPECT_EQ(outcome.out, value + argument);  // it did get there
    const std::string given = "G=" + made.value("environment");
    switch (round % 6) {
      case 0:
        fails({"exec", "-e", given, "box", "--", "/no/such/program", made.value("argument")});
        break;
      case 1:
        fails({"exec", "-w", "/no/such/folder", "-e", given, "box", "--", "/bin/true",
               made.value("argument")});
        break;
      case 2:
        fails({"exec", "-u", "nobody-at-all", "-e", given, "box", "--", "/bin/true",
               made.value("argument")});
        break;
      case 3:
        fails({"exec", "-e", "=" + made.value("environment"), "box", "--", "/bin/true",
               made.value("argument")});
        break;
      case 4:
        fails({"exec", "--timeout", "50ms", "-e", given, "box", "--", "/bin/sh", "-c",
               "exec sleep 60", made.value("argument")});
        break;
      default:
        fails({"exec", "-e", given, "no-such-box", "--", "/bin/true", made.value("argument")});
    }
  }

  // ---- other sandboxes, that do not come about
  fails({"up", "second", "--image", "no-such-image", "-e", "A=" + made.value("environment")},
        secret);
  fails({"up", "second", "--image", "base", "-e", "KEY=" + made.value("environment")}, secret);
  fails({"up", "second", "--image", "base", "-e", "=" + made.value("environment")}, secret);
  fails({"up", "second", "--image", "base"}, {"THE_KEY=" + made.plain("secret") + "\n"});
  fails({"run", "--image", "base", "--kernel", "none", "-e", "A=" + made.value("environment"), "--",
         "/bin/true", made.value("argument")},
        secret);

  // ---- what there is to see
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"ps", "-a", "--json"},
                                             {"inspect", "box", "--json"},
                                             {"metrics"},
                                             {"metrics", "--otlp"},
                                             {"audit", "show"},
                                             {"audit", "show", "box"},
                                             {"audit", "export", "box"},
                                             {"logs", "box"},
                                             {"ai", "usage", "--json"}}) {
    const Outcome outcome = mvm(words);
    EXPECT_EQ(outcome.code, 0) << words[0] << outcome.err;
    said[words[0] + " " + words.back()] += outcome.out + outcome.err;
  }
  EXPECT_EQ(mvm({"down", "box"}).code, 0);
  for (auto& [path, text] : files()) said[path] = std::move(text);

  // The right places were looked at.
  const auto all = [&](const std::string& part) {
    std::string text;
    for (const auto& [where, what] : said)
      if (where.find(part) != where.npos) text += what;
    return text;
  };
  EXPECT_NE(all("state.db").find("box"), std::string::npos);
  EXPECT_NE(all(".jsonl").find("exec_ended"), std::string::npos);
  EXPECT_NE(all("loud.log").find("sandbox started"), std::string::npos);
  EXPECT_NE(all("audit box").find("exec_started"), std::string::npos);
  EXPECT_NE(all("inspect").find("env:THE_KEY"), std::string::npos);
  EXPECT_NE(all("error of").find("no-such-box"), std::string::npos);
  EXPECT_GT(made.size(), 70U);

  for (const auto& [where, text] : said)
    for (const std::string& leaked : made.found_in(text))
      ADD_FAILURE() << leaked << " in " << where;
}

}
}
