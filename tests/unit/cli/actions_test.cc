// The commands against a daemon of the test's own: what they ask for and what they print.

#include "mvm/cli/actions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/cli/arguments.h"
#include "mvm/crypto/authority.h"
#include "mvm/image/kernel.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "../../../src/cli/presets.h"

namespace mvm::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::string>;

// Keeps sandboxes and images in memory and notes what it was asked for.
class FakeDaemon final : public api::Service {
 public:
  std::map<std::string, api::Sandbox> by_name;
  std::vector<api::Image> image_list;
  std::vector<api::Kernel> kernel_list;
  std::vector<api::SandboxSpec> created;
  api::StartRequest started;
  std::vector<std::string> calls;
  std::vector<api::AiUsage> usage;
  proto::AiBudgetRequest budget;

  std::vector<api::AiUsage> ai_usage() override { return usage; }
  api::AiUsage change_ai_budget(const std::string& name,
                                const proto::AiBudgetRequest& request) override {
    calls.push_back("ai budget " + name + (request.reset ? " reset" : ""));
    budget = request;
    if (request.budget && request.of.empty()) usage.at(0).budget = *request.budget;
    if (request.reset) usage.at(0).spent = {};
    return usage.at(0);
  }
  std::string metrics(bool otlp) override { return otlp ? "{}\n" : "mvm_up 1\n"; }
  api::Version version() override { return {"0.1.0", 1, 4242, "2026-01-02T03:04:05Z", "", "", 1}; }
  std::vector<api::Sandbox> sandboxes(bool all) override {
    std::vector<api::Sandbox> out;
    for (const auto& [name, sandbox] : by_name)
      if (all || is_live(sandbox.state)) out.push_back(sandbox);
    return out;
  }
  api::Sandbox create(const api::SandboxSpec& spec) override {
    created.push_back(spec);
    api::Sandbox& sandbox = by_name[spec.name] = made(spec);
    for (const auto& image : image_list)
      if (image.name == spec.image) sandbox.image_digest = image.digest;
    return sandbox;
  }
  api::Sandbox sandbox(const std::string& name) override {
    const auto found = by_name.find(name);
    if (found == by_name.end())
      throw api::ApiError(Kind::NotFound, "there is no sandbox '" + name + "'", "mvm ps -a");
    return found->second;
  }
  api::Sandbox stop(const std::string& name, const api::StopRequest& request) override {
    calls.push_back("stop " + name + " " + std::to_string(request.grace_ms) +
                    (request.kill ? " kill" : ""));
    by_name.at(name).state = api::SandboxState::Stopped;
    return by_name.at(name);
  }
  api::Sandbox wait(const std::string& name, const api::WaitRequest&) override {
    return sandbox(name);
  }
  api::Sandbox start(const std::string& name, const api::StartRequest& request) override {
    calls.push_back("start " + name + " " + std::to_string(request.boot_timeout_ms));
    started = request;
    by_name.at(name).state = api::SandboxState::Running;
    return by_name.at(name);
  }
  void remove(const std::string& name, bool force) override {
    sandbox(name);
    calls.push_back("remove " + name + (force ? " force" : ""));
    by_name.erase(name);
  }
  proto::PublishedPort publish(const std::string& name, const proto::PublishedPort& port) override {
    calls.push_back("publish " + name + " " + port.text());
    proto::PublishedPort out = port;
    if (out.host == 0) out.host = 40'000;
    return out;
  }
  void unpublish(const std::string& name, const proto::PublishedPort& port) override {
    calls.push_back("unpublish " + name + " " + port.place());
  }
  void logs(const std::string&, bool follow, const api::ByteSink& sink) override {
    sink("\x1b[31mred\x1b[0m\n");
    if (follow) sink("more\n");
  }
  std::vector<api::Image> images() override { return image_list; }
  api::Image image(const std::string& reference) override {
    for (const auto& image : image_list)
      if (image.name == reference || image.digest == reference) return image;
    throw api::ApiError(Kind::NotFound, "there is no image '" + reference + "'", "mvm image ls");
  }
  api::Image import_image(const api::ImportRequest& request,
                          const api::ProgressSink& progress) override {
    calls.push_back("import " + request.source + " " + request.name);
    api::ImportProgress note;
    note.note = "left out a device";
    progress(note);
    api::Image image;
    image.name = request.name;
    image.digest = "0123456789abcdef";
    image.size = uint64_t{3} << 20;
    return image;
  }
  api::Image pull_image(const api::PullRequest& request, const api::ProgressSink&) override {
    calls.push_back("pull_image " + request.reference + (request.name.empty() ? "" : " as ") +
                    request.name);
    api::Image image;
    image.name = request.reference;
    image.digest = "0123456789abcdef";
    image.source_kind = "registry";
    image.source_digest = "sha256:feed";
    image.entrypoint = {"/entry"};
    image.command = {"default"};
    image_list.push_back(image);
    return image;
  }
  api::Image capture_image(const api::CaptureRequest& request, const api::ProgressSink&) override {
    calls.push_back("capture_image " + request.sandbox + " " + request.name);
    return {};
  }
  api::Image adopt_image(const api::AdoptRequest& request) override {
    calls.push_back("adopt_image " + request.name);
    if (!adopted) throw Error(Kind::NotFound, "there is no image of this work");
    return *adopted;
  }
  std::optional<api::Image> adopted;
  api::Image tag_image(const std::string& reference, const api::TagRequest& request) override {
    calls.push_back("tag_image " + reference + " " + request.name);
    return {};
  }
  api::Image verify_image(const std::string& reference) override {
    calls.push_back("verify_image " + reference);
    return image(reference);
  }
  api::PruneResult prune_images(const api::PruneRequest& request) override {
    calls.push_back(std::string("prune_images") + (request.all ? " all" : "") +
                    (request.dry_run ? " dry" : ""));
    return {{"0123456789abcdef"}, 3, uint64_t{5} << 20};
  }
  void remove_image(const std::string& reference, bool force) override {
    calls.push_back("remove_image " + reference + (force ? " force" : ""));
  }
  std::vector<api::Kernel> kernels() override { return kernel_list; }
  api::Kernel import_kernel(const api::KernelImportRequest& request) override {
    calls.push_back("import_kernel " + request.source + (request.make_default ? " default" : ""));
    return {"tuned", "/k", uint64_t{3} << 20, 2, request.make_default};
  }
  void remove_kernel(const std::string& name, bool force) override {
    calls.push_back("remove_kernel " + name + (force ? " force" : ""));
  }
  void stop_daemon() override { calls.emplace_back("stop_daemon"); }

  static api::Sandbox made(const api::SandboxSpec& spec) {
    api::Sandbox sandbox;
    sandbox.id = "sb-aaaaaaaaaaaa";
    sandbox.name = spec.name;
    sandbox.state = api::SandboxState::Running;
    sandbox.image = spec.image;
    sandbox.labels = spec.labels;
    sandbox.cpus = spec.cpus;
    sandbox.memory = spec.memory;
    sandbox.disk = spec.disk;
    sandbox.kernel = spec.kernel;
    sandbox.network = spec.network;
    sandbox.ports = spec.ports;
    sandbox.secrets = spec.secrets;
    sandbox.started_at = "2026-01-02T03:04:05Z";
    return sandbox;
  }
};

class Actions : public testing::Test {
 protected:
  // Runs one command line in `folder`; what it printed is in `out` and `err`.
  int run(const Words& words) {
    const sys::Fd out_file = sys::memory_file("out", 0);
    const sys::Fd err_file = sys::memory_file("err", 0);
    Console console(out_file.get(), err_file.get(), look);
    Context context{console,
                    [this](std::string_view name) -> std::optional<std::string> {
                      const auto found = variables.find(std::string(name));
                      if (found == variables.end()) return std::nullopt;
                      return found->second;
                    },
                    store::Paths(folder.path() + "/run", folder.path() + "/data"),
                    folder.path(),
                    "0.1.0",
                    [this]() -> api::Service& { return daemon; },
                    [] { return nullptr; },
                    [] { return int64_t{1767323105}; }};  // a minute after FakeDaemon's start
    const auto parsed = parse_command_line(words);
    const int code = run_command(context, std::get<Arguments>(parsed));
    out = content(out_file);
    err = content(err_file);
    return code;
  }

  std::string failure(const Words& words) {
    try {
      run(words);
    } catch (const Error& error) {
      return error.message();
    }
    return "accepted";
  }

  void write(const std::string& name, std::string_view text) {
    sys::write_file_atomic(folder.path() + "/" + name, as_bytes(text));
  }

  static std::string content(const sys::Fd& file) {
    std::string text(sys::file_size(file.get()), '\0');
    const ssize_t length = ::pread(file.get(), text.data(), text.size(), 0);
    EXPECT_EQ(static_cast<size_t>(length), text.size());
    return text;
  }

  sys::TempDir folder;
  FakeDaemon daemon;
  std::map<std::string, std::string> variables;
  Console::Look look;
  std::string out;
  std::string err;
};

TEST_F(Actions, UpMakesASandboxFromTheManifestAndFlags) {
  write("mvm.toml",
        "name = \"web\"\nimage = \"python\"\ncpus = 2\n[env]\nA = \"file\"\nB = \"file\"\n");
  write("extra.env", "A=env-file\nC=env-file\n");
  variables["MVM_MEM"] = "1G";
  EXPECT_EQ(run({"up", "--cpus", "4", "-e", "B=flag", "--env-file", "extra.env"}), 0);
  ASSERT_EQ(daemon.created.size(), 1U);
  api::SandboxSpec expected;
  expected.name = "web";
  expected.image = "python";
  expected.cpus = 4;
  expected.memory = uint64_t{1} << 30;
  expected.env = {{"A", "env-file"}, {"B", "flag"}, {"C", "env-file"}};
  EXPECT_EQ(daemon.created.front(), expected);
  EXPECT_THAT(out, testing::MatchesRegex("web is running \\([0-9]+\\.[0-9] s\\)\n"));
  EXPECT_THAT(err, IsEmpty());
}

// The defaults of the settings and of the API are one.
TEST_F(Actions, UpWithoutAnythingAsksForTheDefaults) {
  EXPECT_EQ(run({"up", "web"}), 0);
  api::SandboxSpec expected;
  expected.name = "web";
  expected.image = "base";
  EXPECT_EQ(daemon.created.front(), expected);
}

TEST_F(Actions, UpNeedsANameOrAManifest) {
  EXPECT_EQ(failure({"up"}), "NAME is missing, and there is no mvm.toml in this folder");
  write("mvm.toml", "cpus = 2\n");
  EXPECT_EQ(run({"up"}), 0);
  EXPECT_EQ(daemon.created.front().name, folder.path().substr(folder.path().rfind('/') + 1));
  EXPECT_THAT(failure({"up", "-f", "absent.toml"}), HasSubstr("absent.toml"));
}

TEST_F(Actions, UpReportsEveryComplaintAboutTheManifest) {
  write("mvm.toml", "memm = \"1G\"\ncpus = \"two\"\n");
  EXPECT_EQ(failure({"up"}),
            "mvm.toml:1:1: unknown key 'memm'; did you mean 'mem'?\n"
            "mvm.toml:2:8: 'cpus' must be an integer, not a string");
  EXPECT_THAT(daemon.created, IsEmpty());
}

TEST_F(Actions, UpOfARunningSandboxChangesNothing) {
  run({"up", "web"});
  EXPECT_EQ(run({"up", "web"}), 0);
  EXPECT_EQ(out, "web is already running\n");
  EXPECT_EQ(daemon.created.size(), 1U);
}

TEST_F(Actions, UpAddsNoSecretToASandboxAndFails) {
  variables["KEY"] = "sk-value-0123456789";
  variables["OLD"] = "sk-value-9876543210";
  run({"up", "web", "--secret", "OLD@api.example"});
  for (const auto state : {api::SandboxState::Running, api::SandboxState::Stopped}) {
    daemon.by_name.at("web").state = state;
    EXPECT_THAT(failure({"up", "web", "--secret", "KEY@api.example", "--quiet"}),
                HasSubstr("web was made with other secrets"));
    EXPECT_EQ(daemon.created.size(), 1U);
    EXPECT_THAT(daemon.calls, IsEmpty());
  }
  daemon.by_name.at("web").state = api::SandboxState::Running;
  EXPECT_EQ(run({"up", "web", "--secret", "OLD@api.example"}), 0);
  EXPECT_EQ(out, "web is already running\n");
}

TEST_F(Actions, UpOfAStoppedSandboxStartsItAgainAndTellsWhatStays) {
  run({"up", "web"});
  daemon.by_name.at("web").state = api::SandboxState::Stopped;
  EXPECT_EQ(run({"up", "web", "--cpus", "8", "--boot-timeout", "5s"}), 0);
  EXPECT_THAT(daemon.calls, ElementsAre("start web 5000"));
  EXPECT_EQ(daemon.created.size(), 1U);
  EXPECT_THAT(err, HasSubstr("web keeps what it was made with; not changed: cpus"));
}

TEST_F(Actions, UpPrintsOneDocumentWithJson) {
  EXPECT_EQ(run({"up", "web", "--json"}), 0);
  EXPECT_EQ(api::decode_sandbox(out).name, "web");
}

TEST_F(Actions, UpTakesLimitsFromFlagsAndManifest) {
  write("mvm.toml",
        "name = \"web\"\n[limits]\nwall_clock = \"5s\"\npids = 7\ndisk = \"64M\"\n"
        "[sandbox]\nttl = \"1h\"\nretention = \"2h\"\n");
  EXPECT_EQ(run({"up", "--ttl", "30s", "--output-limit", "1M", "--idle-timeout", "10s"}), 0);
  const api::SandboxSpec& spec = daemon.created.at(0);
  EXPECT_EQ(spec.limits, (api::Limits{5'000, 7, 1 << 20, 30'000, 10'000, 7'200'000}));
  EXPECT_EQ(spec.disk, uint64_t{64} << 20);
}

TEST_F(Actions, KernelsAreListedImportedAndRemoved) {
  daemon.kernel_list = {{"tuned", "/k", uint64_t{3} << 20, 2, true}, {"debian", "/d", 1, 0, false}};
  EXPECT_EQ(run({"kernel", "ls"}), 0);
  EXPECT_EQ(out,
            "NAME    SIZE   MODULES  DEFAULT\n"
            "tuned   3 MiB  2        yes\n"
            "debian  1 B    0        -\n");
  EXPECT_EQ(run({"kernel", "ls", "-q"}), 0);
  EXPECT_EQ(out, "tuned\ndebian\n");
  EXPECT_EQ(run({"kernel", "import", ".", "--default"}), 0);
  EXPECT_EQ(out, "kernel tuned: 3 MiB, 2 modules, the default\n");
  EXPECT_EQ(run({"kernel", "rm", "-f", "tuned", "debian"}), 0);
  EXPECT_EQ(daemon.calls.size(), 3U);
  EXPECT_EQ(daemon.calls.back(), "remove_kernel debian force");
  EXPECT_THAT(failure({"kernel", "import", "./nothing"}), HasSubstr("there is no"));
}

TEST_F(Actions, PsPrintsATable) {
  run({"up", "web", "--cpus", "2"});
  run({"up", "db"});
  daemon.by_name.at("db").state = api::SandboxState::Crashed;
  daemon.by_name.at("db").end = api::End{proto::EndReason::Panic, "Kernel panic"};
  daemon.by_name.at("db").ended_at = "2026-01-02T03:04:35Z";
  EXPECT_EQ(run({"ps"}), 0);
  EXPECT_EQ(out,
            "NAME  STATE    IMAGE  CPUS  MEMORY   SINCE\n"
            "web   running  base   2     512 MiB  1m0s\n");
  EXPECT_EQ(run({"ps", "-a"}), 0);
  EXPECT_EQ(out,
            "NAME  STATE            IMAGE  CPUS  MEMORY   SINCE\n"
            "db    crashed (panic)  base   1     512 MiB  30s\n"
            "web   running          base   2     512 MiB  1m0s\n");
  EXPECT_EQ(run({"ps", "-aq"}), 0);
  EXPECT_EQ(out, "db\nweb\n");
  EXPECT_EQ(run({"ps", "--json"}), 0);
  EXPECT_EQ(api::decode_sandboxes(out).size(), 1U);
}

TEST_F(Actions, PsAndInspectTellTheHealth) {
  run({"up", "web"});
  EXPECT_EQ(daemon.created.at(0).health, std::nullopt);
  api::Health health;
  health.state = proto::Health::Healthy;
  health.exit_code = 0;
  daemon.by_name.at("web").health = health;
  EXPECT_EQ(run({"ps"}), 0);
  EXPECT_EQ(out,
            "NAME  STATE              IMAGE  CPUS  MEMORY   SINCE\n"
            "web   running (healthy)  base   1     512 MiB  1m0s\n");
  EXPECT_EQ(run({"inspect", "web", "--json"}), 0);
  EXPECT_EQ(api::decode_sandbox(out).health, health);
}

TEST_F(Actions, TheHealthCheckOfAnImageIsSwitchedOff) {
  EXPECT_EQ(run({"up", "web", "--no-healthcheck"}), 0);
  EXPECT_EQ(daemon.created.at(0).health, proto::HealthCheck{});
  write("mvm.toml", "name = \"db\"\n[sandbox]\nhealthcheck = false\n");
  EXPECT_EQ(run({"up"}), 0);
  EXPECT_EQ(daemon.created.at(1).health, proto::HealthCheck{});
}

TEST_F(Actions, PortsArePublishedListedAndTakenBack) {
  daemon.by_name["web"] = FakeDaemon::made({});
  EXPECT_EQ(run({"port", "web", "8080:80", "0:3000"}), 0);
  EXPECT_THAT(daemon.calls,
              ElementsAre("publish web 127.0.0.1:8080:80", "publish web 127.0.0.1:0:3000"));
  EXPECT_EQ(out,
            "127.0.0.1:8080 leads to port 80 of web\n"
            "127.0.0.1:40000 leads to port 3000 of web\n");
  EXPECT_EQ(err, "");
  EXPECT_EQ(run({"port", "web", "[::]:8080:80", "--json"}), 0);
  EXPECT_EQ(out, "[{\"address\":\"::\",\"host\":8080,\"guest\":80}]\n");
  EXPECT_EQ(err, "mvm: [::]:8080 is open to other machines, and leads to port 80 of web\n");

  daemon.by_name["web"].ports = {*proto::parse_published_port("8080:80")};
  EXPECT_EQ(run({"port", "web"}), 0);
  EXPECT_EQ(out, "HOST            SANDBOX\n127.0.0.1:8080  80\n");
  daemon.calls.clear();
  EXPECT_EQ(run({"port", "web", "--remove", "8080"}), 0);
  EXPECT_EQ(out, "127.0.0.1:8080 is no longer web's\n");
  EXPECT_THAT(daemon.calls, ElementsAre("unpublish web 127.0.0.1:8080"));
  EXPECT_THAT(failure({"port", "web", "80"}), HasSubstr("PORT must be HOST:GUEST"));
  EXPECT_THAT(failure({"port", "web", "--remove", "x"}), HasSubstr("--remove must be a port"));
}

TEST_F(Actions, UpPublishesThePortsOfFlagsAndManifestTogether) {
  write("mvm.toml", "name = \"web\"\nports = [\"127.0.0.2:8443:443\"]\n");
  EXPECT_EQ(run({"up", "-p", "8080:80", "--publish", "0.0.0.0:9000:9000"}), 0);
  ASSERT_EQ(daemon.created.size(), 1U);
  EXPECT_THAT(daemon.created[0].ports,
              ElementsAre(*proto::parse_published_port("8080:80"),
                          *proto::parse_published_port("0.0.0.0:9000:9000"),
                          *proto::parse_published_port("127.0.0.2:8443:443")));
  EXPECT_EQ(err, "mvm: 0.0.0.0:9000 is open to other machines, and leads to port 9000 of web\n");
  EXPECT_THAT(out, HasSubstr("127.0.0.1:8080->80, 0.0.0.0:9000->9000"));
  EXPECT_EQ(run({"ps"}), 0);
  EXPECT_THAT(out, HasSubstr("PORTS\n"));
  EXPECT_THAT(failure({"up", "other", "-p", "80"}), HasSubstr("--publish must be HOST:GUEST"));
}

TEST_F(Actions, PsFiltersByLabel) {
  run({"up", "a"});
  run({"up", "b"});
  daemon.by_name.at("a").labels = {{"team", "search"}, {"x", ""}};
  daemon.by_name.at("b").labels = {{"team", "ads"}};
  run({"ps", "-q", "--label", "team"});
  EXPECT_EQ(out, "a\nb\n");
  run({"ps", "-q", "--label", "team=search", "--label", "x"});
  EXPECT_EQ(out, "a\n");
}

TEST_F(Actions, DownStopsEachAndKeepsStoppedOnesStopped) {
  run({"up", "a"});
  run({"up", "b"});
  daemon.by_name.at("b").state = api::SandboxState::Stopped;
  EXPECT_EQ(run({"down", "a", "b", "--grace", "2s", "--rm"}), 0);
  EXPECT_THAT(daemon.calls, ElementsAre("stop a 2000", "remove a", "remove b"));
  EXPECT_EQ(out, "a is removed\nb is removed\n");
  EXPECT_EQ(failure({"down", "absent"}), "there is no sandbox 'absent'");
}

TEST_F(Actions, RemoveForcedIsFineWithoutASandbox) {
  run({"up", "a"});
  EXPECT_EQ(run({"rm", "-f", "absent", "a"}), 0);
  EXPECT_THAT(daemon.calls, ElementsAre("remove a force"));
  EXPECT_EQ(failure({"rm", "absent"}), "there is no sandbox 'absent'");
}

TEST_F(Actions, LogsShowControlBytesOnATerminalOnly) {
  EXPECT_EQ(run({"logs", "web"}), 0);
  EXPECT_EQ(out, "\x1b[31mred\x1b[0m\n");
  look.out_terminal = true;
  EXPECT_EQ(run({"logs", "-f", "web"}), 0);
  EXPECT_EQ(out, "\\x1b[31mred\\x1b[0m\nmore\n");
}

TEST_F(Actions, ImportGivesAnAbsoluteSourceAndAName) {
  write("rootfs.tar.gz", "x");
  EXPECT_EQ(run({"image", "import", "rootfs.tar.gz"}), 0);
  EXPECT_THAT(daemon.calls, ElementsAre("import " + folder.path() + "/rootfs.tar.gz rootfs"));
  EXPECT_THAT(out, testing::StartsWith("image rootfs: 3 MiB, 0123456789ab ("));
  EXPECT_EQ(err, "mvm: left out a device\n");
  EXPECT_EQ(failure({"image", "import", "absent.tar"}), "there is no absent.tar");
  run({"image", "import", folder.path() + "/rootfs.tar.gz", "base"});
  EXPECT_EQ(daemon.calls.back(), "import " + folder.path() + "/rootfs.tar.gz base");
}

TEST_F(Actions, UpPullsWhatNamesARegistryAndIsNotHere) {
  EXPECT_EQ(run({"up", "web", "--image", "ghcr.io/org/app:v1"}), 0);
  EXPECT_THAT(daemon.calls, ElementsAre("pull_image ghcr.io/org/app:v1"));
  EXPECT_THAT(err, testing::HasSubstr("ghcr.io/org/app:v1 resolved to sha256:feed"));
  // Also where it is here: what runs is what it resolved to then.
  EXPECT_EQ(run({"up", "other", "--image", "ghcr.io/org/app:v1"}), 0);
  EXPECT_THAT(err, testing::HasSubstr("ghcr.io/org/app:v1 resolved to sha256:feed"));
  EXPECT_EQ(run({"up", "quiet", "--image", "ghcr.io/org/app:v1", "--quiet"}), 0);
  EXPECT_THAT(err, IsEmpty());
  EXPECT_EQ(run({"up", "json", "--image", "ghcr.io/org/app:v1", "--json"}), 0);
  EXPECT_THAT(err, IsEmpty());
  EXPECT_EQ(run({"up", "digest", "--image", "0123456789abcdef"}), 0);
  EXPECT_THAT(err, IsEmpty());
  EXPECT_EQ(run({"up", "local", "--image", "base"}), 0);
  EXPECT_THAT(err, IsEmpty());
  EXPECT_EQ(daemon.calls.size(), 1U);
}

TEST_F(Actions, PullPrintsWhatTheNameResolvedTo) {
  EXPECT_EQ(run({"image", "pull", "python:3.12", "--name", "py"}), 0);
  EXPECT_THAT(daemon.calls, ElementsAre("pull_image python:3.12 as py"));
  EXPECT_THAT(out, testing::HasSubstr("\nresolved to sha256:feed\n"));
}

TEST_F(Actions, TagVerifyAndPrune) {
  run({"image", "pull", "a"});
  EXPECT_EQ(run({"image", "tag", "a", "b"}), 0);
  EXPECT_EQ(run({"image", "verify", "a"}), 0);
  EXPECT_EQ(out, "image a is whole: 0123456789abcdef\n");
  EXPECT_EQ(run({"image", "prune", "--all", "--dry-run"}), 0);
  EXPECT_EQ(out,
            "would remove image 0123456789ab\n"
            "would free 5 MiB: 1 images, 3 layers of earlier pulls\n");
  EXPECT_THAT(daemon.calls, ElementsAre("pull_image a", "tag_image a b", "verify_image a",
                                        "prune_images all dry"));
}

TEST_F(Actions, RunNeedsACommandOrAnImageThatHasOne) {
  api::Image image;
  image.name = "bare";
  daemon.image_list.push_back(image);
  EXPECT_EQ(failure({"run", "bare"}),
            "the image bare names no command of its own; put one after --");
}

TEST_F(Actions, RunOfAnInitSystemIsExplained) {
  for (const char* init : {"/sbin/init", "/lib/systemd/systemd", "init"}) {
    api::Image image;
    image.name = "machine";
    image.entrypoint = {init};
    daemon.image_list = {image};
    EXPECT_THAT(failure({"run", "machine"}),
                HasSubstr("starts an init system (" + std::string(init) + ")"));
    EXPECT_TRUE(daemon.created.empty());
  }
}

TEST_F(Actions, ImageListPrintsATable) {
  api::Image image;
  image.name = "base:latest";
  image.digest = "0123456789abcdef0123";
  image.size = uint64_t{110} << 20;
  image.created_at = "2026-01-02T03:04:05Z";
  image.used_by = {"web", "db"};
  daemon.image_list = {image};
  EXPECT_EQ(run({"image", "ls"}), 0);
  EXPECT_EQ(out,
            "NAME         DIGEST        SIZE     CREATED     USED BY\n"
            "base:latest  0123456789ab  110 MiB  2026-01-02  web db\n");
  EXPECT_EQ(run({"image", "ls", "-q"}), 0);
  EXPECT_EQ(out, "base:latest\n");
}

TEST_F(Actions, InitWritesAManifestOnce) {
  EXPECT_EQ(run({"init", "agent-sandbox"}), 0);
  EXPECT_EQ(out, "wrote mvm.toml; `mvm up` starts agent-sandbox\n");
  EXPECT_EQ(run({"config", "validate"}), 0);
  EXPECT_EQ(out, "mvm.toml is valid\n");
  EXPECT_EQ(failure({"init", "other"}), "mvm.toml is here already");
  EXPECT_EQ(run({"init", "other", "--force", "--image", "python"}), 0);
  EXPECT_EQ(run({"up"}), 0);
  EXPECT_EQ(daemon.created.front().name, "other");
  EXPECT_EQ(daemon.created.front().image, "python");
  EXPECT_THAT(failure({"init", "a/b", "--force"}), HasSubstr("has the character '/'"));
}

TEST_F(Actions, ValidateTellsAllAndExitsWithOne) {
  write("box.toml", "memm = 1\ncpus = 0\n");
  EXPECT_EQ(run({"config", "validate", "box.toml"}), 1);
  EXPECT_EQ(err,
            "box.toml:1:1: unknown key 'memm'; did you mean 'mem'?\n"
            "box.toml:2:8: 'cpus' must be from 1 to 32, not 0\n");
  EXPECT_EQ(run({"config", "validate", "box.toml", "--json"}), 1);
  EXPECT_EQ(out,
            "{\"file\":\"box.toml\",\"valid\":false,\"complaints\":[{\"line\":1,\"column\":1,"
            "\"message\":\"unknown key 'memm'; did you mean 'mem'?\"},{\"line\":2,\"column\":8,"
            "\"message\":\"'cpus' must be from 1 to 32, not 0\"}]}\n");
}

TEST_F(Actions, ShowNamesEachOrigin) {
  write("mvm.toml", "cpus = 2\n");
  variables["MVM_IMAGE"] = "python";
  EXPECT_EQ(run({"config", "show"}), 0);
  EXPECT_THAT(out, HasSubstr("image = \"python\"            # environment\n"));
  EXPECT_THAT(out, HasSubstr("cpus = 2                    # mvm.toml\n"));
  EXPECT_THAT(out, HasSubstr("mem = \"512M\"                # default\n"));
  EXPECT_EQ(run({"config", "show", "--json"}), 0);
  EXPECT_THAT(out, HasSubstr("\"cpus\":{\"value\":2,\"from\":\"mvm.toml\"}"));
}

TEST_F(Actions, DaemonStatusDoesNotStartIt) {
  EXPECT_EQ(run({"daemon", "status"}), 1);
  EXPECT_EQ(out, "not running\n");
  EXPECT_EQ(run({"daemon", "stop"}), 0);
  EXPECT_THAT(daemon.calls, IsEmpty());
}

TEST_F(Actions, DoctorNamesWhatIsMissingAndTheWayOut) {
  EXPECT_EQ(run({"doctor", "--only", "kernel", "--only", "image"}), 1);
  EXPECT_THAT(out, HasSubstr("fail  kernel  there is no guest kernel\n"));
  EXPECT_THAT(out, HasSubstr("fail  image   there is no image\n"));
  EXPECT_THAT(out, HasSubstr("`mvm image import` takes any"));
  api::Image image;
  image.name = "base:latest";
  daemon.image_list = {image};
  EXPECT_EQ(run({"doctor", "--only", "image"}), 0);
  EXPECT_EQ(out, "ok    image  1, base among them\n");
  EXPECT_EQ(run({"doctor", "--only", "daemon", "--json"}), 0);
  EXPECT_EQ(out,
            "{\"ok\":true,\"checks\":[{\"name\":\"daemon\",\"level\":\"ok\",\"detail\":\"runs, "
            "version 0.1.0, pid 4242, 1 sandboxes\"}]}\n");
  EXPECT_EQ(
      failure({"doctor", "--only", "luck"}),
      "there is no check 'luck'; there are kvm, user, memory, disk, mkfs.ext4, jail, network, "
      "cgroup, daemon, kernel, image");
}

TEST_F(Actions, DamagedImagesAndKernelsAreListedWithWhatIsWrong) {
  api::Image image;
  image.name = "web:latest";
  image.digest = std::string(64, 'a');
  image.problem = "image aaaaaaaaaaaa is damaged: it is empty";
  daemon.image_list = {image};
  EXPECT_EQ(run({"image", "ls"}), 0);
  EXPECT_THAT(out, HasSubstr("web:latest  aaaaaaaaaaaa  ?"));
  EXPECT_EQ(err, "mvm: image aaaaaaaaaaaa is damaged: it is empty\n");
  EXPECT_EQ(run({"doctor", "--only", "image"}), 1);
  EXPECT_THAT(out, HasSubstr("fail  image  image aaaaaaaaaaaa is damaged"));
  daemon.kernel_list = {{"k", "", 0, 0, true, "/k/vmlinux has 0 bytes"}};
  EXPECT_EQ(run({"kernel", "ls"}), 0);
  EXPECT_THAT(out, HasSubstr("k     damaged  ?        yes"));
  EXPECT_EQ(err, "mvm: /k/vmlinux has 0 bytes\n");
  EXPECT_EQ(run({"doctor", "--only", "kernel"}), 1);
  EXPECT_THAT(out, HasSubstr("fail  kernel  /k/vmlinux has 0 bytes"));
}

TEST_F(Actions, DoctorReadsAllOfAKernel) {
  const std::string source = folder.path() + "/source";
  sys::make_directories(source);
  sys::write_file_atomic(source + "/vmlinux", as_bytes("kernel"));
  sys::write_file_atomic(source + "/bundle.json", as_bytes(R"({"name":"k","image":"vmlinux"})"));
  store::Paths paths(folder.path() + "/run", folder.path() + "/data");
  paths.ensure_data();
  const auto kernel = image::install_kernel(paths, source);
  daemon.kernel_list = {{"k", kernel.image, 6, 0, true}};
  EXPECT_EQ(run({"doctor", "--only", "kernel"}), 0);
  sys::write_file_atomic(kernel.image, as_bytes("Kernel"));
  EXPECT_EQ(run({"doctor", "--only", "kernel"}), 1);
  EXPECT_THAT(out, HasSubstr("/data/kernels/k/vmlinux is not what was installed"));
}

TEST_F(Actions, DoctorFindsMkfsOnThePath) {
  write("mkfs.ext4", "#!/bin/sh\n");
  ASSERT_EQ(::chmod((folder.path() + "/mkfs.ext4").c_str(), 0755), 0);
  variables["PATH"] = "relative:" + folder.path();
  EXPECT_EQ(run({"doctor", "--only", "mkfs.ext4"}), 0);
  EXPECT_THAT(out, HasSubstr("/mkfs.ext4\n"));
}

TEST_F(Actions, PolicyScanTellsPlacesAndNoValues) {
  write("notes.txt", "nothing here\nmail jane.roe@example.org now\n");
  const std::string file = folder.path() + "/notes.txt";
  EXPECT_EQ(run({"policy", "scan", file}), 0);
  EXPECT_EQ(out, file + ":2:6: email\n\nCLASS  COUNT\nemail  1\n");
  EXPECT_EQ(run({"policy", "scan", "--json", file}), 0);
  EXPECT_EQ(out, "{\"counts\":{\"email\":1},\"file\":\"" + file +
                     "\",\"findings\":[{\"class\":\"email\",\"column\":6,\"detail\":\"\","
                     "\"length\":20,\"line\":2}],\"total\":1}\n");
  EXPECT_THAT(failure({"policy", "scan", "/no/such/file"}), HasSubstr("/no/such/file"));
}

TEST_F(Actions, UpAsksForTheNetworkOfFlagsAndManifestTogether) {
  write(
      "mvm.toml",
      "name = \"web\"\n[audit]\nsync = \"strict\"\n[network]\nmode = \"audit\"\ninspect = \"all\"\n"
      "allow_hosts = [\"a.example\"]\n"
      "[[network.routes]]\nhost = \"r.example\"\n");
  EXPECT_EQ(run({"up", "--allow-host", "b.example", "--allow-cidr", "10.1.0.0/16",
                 "--allow-endpoint", "GET https://c.example/**"}),
            0);
  ASSERT_EQ(daemon.created.size(), 1U);
  const proto::NetworkConfig& network = daemon.created[0].network;
  EXPECT_TRUE(network.enabled);
  EXPECT_TRUE(network.audit);
  EXPECT_TRUE(network.inspect_all);
  EXPECT_TRUE(daemon.created[0].audit_strict);
  EXPECT_THAT(network.allow_hosts, ElementsAre("b.example", "a.example"));
  EXPECT_THAT(network.allow_cidr, ElementsAre("10.1.0.0/16"));
  EXPECT_THAT(network.allow_endpoints, ElementsAre("GET https://c.example/**"));
  ASSERT_EQ(network.routes.size(), 1U);
  EXPECT_EQ(network.routes[0].host, "r.example");
}

// No other flag takes a rule away, in whatever company it comes.
TEST_F(Actions, RulesAreThereBesideEveryOtherFlag) {
  const std::vector<Words> flags{{"--image", "python"},
                                 {"--cpus", "2"},
                                 {"-m", "1G"},
                                 {"--disk-size", "2G"},
                                 {"--hostname", "h"},
                                 {"--profile", "sealed"},
                                 {"--label", "a=b"},
                                 {"--ttl", "1h"},
                                 {"--ai-metering"},
                                 {"--pii", "detect"},
                                 {"-p", "0:80"},
                                 {"-e", "A=1"},
                                 {"-w", "/work"},
                                 {"-u", "1000"},
                                 {"--rm"},
                                 {"--network-preset", "none"},
                                 {"--json"},
                                 {"--network-mode", "enforce"},
                                 {"--network-inspect", "all"},
                                 {"--pids-limit", "9"},
                                 {"--allow-cidr", "10.0.0.0/8"}};
  for (const Words& first : flags)
    for (const Words& second : flags) {
      if (&first == &second) continue;
      daemon.by_name.clear();
      Words words{"up", "web"};
      words.insert(words.end(), first.begin(), first.end());
      words.insert(words.end(), {"--allow-host", "a.example"});
      words.insert(words.end(), second.begin(), second.end());
      EXPECT_EQ(run(words), 0);
      EXPECT_THAT(daemon.created.back().network.allow_hosts, ElementsAre("a.example"))
          << first[0] << " " << second[0];
      EXPECT_FALSE(daemon.created.back().network.audit);
    }
}

TEST_F(Actions, UpFindsAuthoritiesWhereTheyAreWrittenAndReadsThem) {
  crypto::AuthorityScope scope;
  scope.names = {"a.example"};
  const std::string pem =
      crypto::CertificateAuthority("test", scope, std::chrono::system_clock::now()).root_pem();
  sys::make_directories(folder.path() + "/there");
  for (const char* file : {"here.pem", "there/file.pem", "there/home.pem"}) write(file, pem);
  write("there/box.toml",
        "name = \"web\"\n[network]\nupstream_ca = [\"*.corp.example=file.pem\", "
        "\"*=~/home.pem\"]\n");
  variables["HOME"] = folder.path() + "/there";
  EXPECT_EQ(run({"up", "-f", "there/box.toml", "--upstream-ca", "a.example=here.pem"}), 0);
  ASSERT_EQ(daemon.created.size(), 1U);
  EXPECT_THAT(daemon.created[0].network.upstream_ca,
              ElementsAre("a.example=" + folder.path() + "/here.pem",
                          "*.corp.example=" + folder.path() + "/there/file.pem",
                          "*=" + folder.path() + "/there/home.pem"));
  EXPECT_EQ(run({"config", "validate", "there/box.toml"}), 0);

  write("there/file.pem", "nothing\n");
  const std::string placed = folder.path() + "/there/file.pem";
  EXPECT_THAT(failure({"up", "-f", "there/box.toml"}),
              HasSubstr("upstream_ca \"*.corp.example=" + placed + "\": reading certificates"));
  EXPECT_THAT(failure({"up", "web", "--upstream-ca", "a.example=missing.pem"}),
              HasSubstr("/missing.pem: No such file"));
  EXPECT_EQ(daemon.created.size(), 1U);
  EXPECT_EQ(run({"config", "validate", "there/box.toml"}), 1);
  EXPECT_THAT(err, HasSubstr("there is none (they are expected as PEM)"));
  variables.erase("HOME");
  EXPECT_THAT(failure({"up", "-f", "there/box.toml"}), HasSubstr("HOME is not set"));
}

TEST_F(Actions, UpLooksSecretsUpAndSendsThemApart) {
  write("mvm.toml",
        "name = \"web\"\n[secrets]\nOPENAI_API_KEY = \"env:MY_KEY\"\n"
        "FORGE = { from = \"file:token\", hosts = \"git.example\", places = [\"basic\"] }\n");
  write("token", "token-0123456789\n");
  variables["MY_KEY"] = "key-0123456789";
  EXPECT_EQ(run({"up", "--allow-host", "api.openai.com"}), 0);
  const api::SandboxSpec& spec = daemon.created.at(0);
  ASSERT_EQ(spec.secrets.size(), 2U);
  EXPECT_EQ(spec.secrets[0].name, "FORGE");
  EXPECT_EQ(spec.secrets[0].from, "file:" + folder.path() + "/token");
  EXPECT_THAT(spec.secrets[1].hosts, ElementsAre("api.openai.com"));
  EXPECT_EQ(spec.secrets[1].prefix, "sk-proj-");
  EXPECT_EQ(spec.secret_values, (proto::SecretValues{{"FORGE", "token-0123456789"},
                                                     {"OPENAI_API_KEY", "key-0123456789"}}));
  EXPECT_EQ(err,
            "mvm: secret FORGE is for git.example\n"
            "  which no rule lets it reach; this would: --allow-host git.example\n"
            "mvm: secret OPENAI_API_KEY is for api.openai.com\n");
  EXPECT_EQ(run({"policy", "explain", "--allow-host", "git.example", "https://git.example/"}), 0);
  EXPECT_THAT(out, HasSubstr("each request is judged by itself"));
}

TEST_F(Actions, UpGivesAStoppedSandboxItsSecretsAgain) {
  variables["KEY"] = "key-0123456789";
  EXPECT_EQ(run({"up", "web", "--secret", "KEY@api.example", "--quiet"}), 0);
  daemon.by_name.at("web").state = api::SandboxState::Stopped;
  variables["KEY"] = "new-0123456789";
  EXPECT_EQ(run({"up", "web"}), 0);
  EXPECT_EQ(daemon.started.secret_values, (proto::SecretValues{{"KEY", "new-0123456789"}}));
}

TEST_F(Actions, UpRefusesSecretsThatContradictOrAreMissing) {
  EXPECT_THAT(failure({"up", "web", "--secret", "KEY@a.example", "-e", "KEY=value"}),
              HasSubstr("both set KEY"));
  EXPECT_THAT(failure({"up", "web", "--secret", "KEY@a.example", "--secret", "KEY@b.example"}),
              HasSubstr("two rules for KEY"));
  EXPECT_THAT(failure({"up", "web", "--secret", "KEY"}), HasSubstr("which hosts"));
  EXPECT_THAT(failure({"up", "web", "--secret", "KEY@a.example", "--no-network"}),
              HasSubstr("contradict"));
  EXPECT_THAT(failure({"up", "web", "--secret", "KEY@a.example"}), HasSubstr("secret KEY"));
  EXPECT_THAT(failure({"up", "web", "--secret", "KEY=0123456789"}),
              testing::AllOf(HasSubstr("mvm secret set"), testing::Not(HasSubstr("0123456789"))));
  variables["KEY"] = "short";
  EXPECT_THAT(failure({"up", "web", "--secret", "KEY@a.example"}),
              testing::AllOf(HasSubstr("fewer than 8"), testing::Not(HasSubstr("short"))));
  EXPECT_THAT(daemon.created, IsEmpty());
}

TEST_F(Actions, UpAsksForWhatBecomesOfPersonalData) {
  write("mvm.toml",
        "name = \"web\"\n[pii]\nmode = \"detect\"\ncategories = [\"personal\"]\n"
        "rules = [\"deny card\"]\npatterns = [\"ticket TCK-[0-9]+\"]\ntoken_window = \"1m\"\n"
        "max_value = \"64K\"\nmax_growth = 50\n");
  EXPECT_EQ(run({"up", "--pii", "tokenize", "--pii-rule", "allow email at a.example",
                 "--pii-bypass", "*:22"}),
            0);
  ASSERT_EQ(daemon.created.size(), 1U);
  const proto::PiiConfig& pii = daemon.created[0].network.pii;
  EXPECT_EQ(pii.mode, "tokenize");
  EXPECT_THAT(pii.categories, ElementsAre("personal"));
  EXPECT_THAT(pii.rules, ElementsAre("allow email at a.example", "deny card"));
  EXPECT_THAT(pii.patterns, ElementsAre("ticket TCK-[0-9]+"));
  EXPECT_THAT(pii.bypass, ElementsAre("*:22"));
  EXPECT_EQ(pii.token_window_ms, 60'000U);
  EXPECT_EQ(pii.max_value, 65'536U);
  EXPECT_EQ(pii.max_growth, 50U);
  EXPECT_EQ(pii.on_undecodable, "deny");
  EXPECT_THAT(failure({"up", "--pii-rule", "deny faces"}),
              HasSubstr("pii.rules: \"faces\" is no class of personal data"));
  write("box.toml", "[pii]\npatterns = [\"x (\"]\n");
  EXPECT_EQ(run({"config", "validate", "box.toml"}), 1);
  EXPECT_THAT(err, HasSubstr("box.toml: pii.patterns: the pattern 'x' is no expression of RE2"));
}

TEST_F(Actions, NoNetworkWinsOverAManifestWithRules) {
  write("mvm.toml", "name = \"web\"\n[network]\nallow_hosts = [\"a.example\"]\n");
  EXPECT_EQ(run({"up", "--no-network"}), 0);
  ASSERT_EQ(daemon.created.size(), 1U);
  proto::NetworkConfig none;
  none.enabled = false;
  EXPECT_EQ(daemon.created[0].network, none);
}

TEST_F(Actions, APresetIsExpandedHere) {
  EXPECT_EQ(run({"up", "web", "--network-preset", "dev"}), 0);
  ASSERT_EQ(daemon.created.size(), 1U);
  EXPECT_EQ(daemon.created[0].network.preset, "dev");
  EXPECT_THAT(daemon.created[0].network.preset_hosts, testing::Contains("github.com"));
}

TEST_F(Actions, UpSaysThatThereIsNoNetwork) {
  api::Sandbox stopped = FakeDaemon::made({});
  stopped.name = "web";
  stopped.state = api::SandboxState::Stopped;
  stopped.network_missing = "user namespaces are forbidden";
  daemon.by_name["web"] = stopped;
  EXPECT_EQ(run({"up", "web", "--quiet"}), 0);
  EXPECT_THAT(err, HasSubstr("mvm: web has no network: user namespaces are forbidden"));
}

TEST_F(Actions, PolicyExplainAnswersAsTheEnforcerWould) {
  EXPECT_EQ(run({"policy", "explain", "https://example.com"}), 1);
  EXPECT_EQ(out, "deny: policy_denied\n  this would allow it: --allow-host example.com:443\n");
  EXPECT_EQ(run({"policy", "explain", "--allow-host", "example.com", "https://example.com/x"}), 0);
  EXPECT_EQ(out, "allow: allowed, by rule 'allow-host example.com'\n");
  EXPECT_EQ(run({"policy", "explain", "--allow-host", "example.com", "https://example.com:8443"}),
            1);
  EXPECT_EQ(run({"policy", "explain", "GET", "http://example.com/a?b"}), 1);
  EXPECT_THAT(out, HasSubstr("--allow-endpoint 'GET http://example.com:80/a'"));
  EXPECT_EQ(run({"policy", "explain", "--allow-endpoint", "GET https://example.com/a/**", "GET",
                 "https://example.com/a/b"}),
            0);
  EXPECT_EQ(run({"policy", "explain", "--allow-endpoint", "GET https://example.com/a/**", "POST",
                 "https://example.com/a/b"}),
            1);
  EXPECT_EQ(run({"policy", "explain", "--allow-cidr", "0.0.0.0/0", "169.254.169.254:80"}), 1);
  EXPECT_THAT(out, HasSubstr("deny: cloud_metadata\n"));
  EXPECT_EQ(run({"policy", "explain", "--json", "[::1]:80"}), 1);
  EXPECT_EQ(
      out,
      "{\"outcome\":\"deny\",\"reason\":\"loopback\",\"rule\":\"\",\"inspect\":false,"
      "\"audited\":false,\"suggestion\":\"--allow-cidr [::1]:80\",\"note\":\"\",\"secrets\":[],"
      "\"personal_data\":[],\"ai_provider\":\"\"}\n");
  EXPECT_EQ(run({"policy", "explain", "--allow-host", "*.example.com", "https://example.com"}), 1);
  EXPECT_EQ(
      out,
      "deny: policy_denied\n  rule 'allow-host *.example.com' does not cover it: *.example.com "
      "is what is below that name, not the name itself\n"
      "  this would allow it: --allow-host example.com:443\n");
  const Words all{"policy",       "explain",     "--network-inspect",  "all",
                  "--allow-host", "example.com", "https://example.com"};
  EXPECT_EQ(run(all), 0);
  EXPECT_THAT(out, HasSubstr("each request is judged by itself"));
  EXPECT_EQ(run({"policy", "explain", "--allow-host", "example.com", "https://example.com"}), 0);
  EXPECT_THAT(out, Not(HasSubstr("each request is judged by itself")));
  EXPECT_EQ(run({"policy", "explain", "--no-network", "https://example.com"}), 1);
  EXPECT_EQ(out, "deny: the sandbox has no network card\n");
}

TEST_F(Actions, PolicyExplainReadsTheManifest) {
  write("mvm.toml",
        "[[network.routes]]\nid = \"forge\"\nhost = \"a.example\"\n"
        "rules = [{ id = \"read\", method = \"GET\", path = \"/r/**\" }]\n");
  EXPECT_EQ(run({"policy", "explain", "GET", "https://a.example/r/1"}), 0);
  EXPECT_EQ(out, "allow: allowed, by rule 'read'; each request is judged by itself\n");
  EXPECT_EQ(run({"policy", "explain", "PUT", "https://a.example/r/1"}), 1);
  EXPECT_THAT(out, HasSubstr("deny: route_denied, by rule 'forge'"));
}

TEST_F(Actions, PolicyExplainSaysWhatIsLookedIntoAndWhatFor) {
  write("mvm.toml",
        "[network]\nallow_hosts = [\"api.openai.com\", \"b.example\", \"c.example\"]\n"
        "[network.ai]\nmetering = true\n"
        "[secrets]\nTOKEN = { hosts = [\"b.example\"] }\n"
        "[pii]\nmode = \"tokenize\"\nrules = [\"deny credentials at b.example\"]\n"
        "bypass = [\"c.example\"]\n");
  EXPECT_EQ(run({"policy", "explain", "https://api.openai.com/v1/x"}), 0);
  EXPECT_EQ(
      out,
      "allow: allowed, by rule 'allow-host api.openai.com'; each request is judged by itself\n"
      "  its exchanges are looked into for personal data (tokenize), use of AI (openai)\n");
  EXPECT_EQ(run({"policy", "explain", "https://b.example/"}), 0);
  EXPECT_THAT(out, HasSubstr("looked into for secrets (TOKEN), personal data (tokenize, deny)\n"));
  EXPECT_EQ(run({"policy", "explain", "https://c.example/"}), 0);
  EXPECT_THAT(out, testing::Not(HasSubstr("looked into")));
  EXPECT_THAT(out, testing::Not(HasSubstr("judged by itself")));
  EXPECT_EQ(run({"policy", "explain", "--json", "https://b.example/"}), 0);
  EXPECT_THAT(out, HasSubstr("\"inspect\":true"));
  EXPECT_THAT(out, HasSubstr("\"secrets\":[\"TOKEN\"],\"personal_data\":[\"tokenize\",\"deny\"]"));
  EXPECT_EQ(run({"policy", "explain", "https://d.example/"}), 1);
  EXPECT_THAT(out, testing::Not(HasSubstr("looked into")));
}

TEST_F(Actions, AiUsageAndBudget) {
  EXPECT_EQ(run({"ai", "usage"}), 0);
  EXPECT_THAT(out, HasSubstr("no sandbox's use of AI is metered"));
  api::AiUsage usage;
  usage.sandbox = "web";
  usage.budget.max_total_tokens = 250;
  usage.spent.total_tokens = 29;
  usage.spent.input_tokens = 19;
  usage.spent.output_tokens = 10;
  usage.spent.requests = 1;
  usage.spent.unknown = 2;
  usage.models.push_back({"openai", "gpt-4o", {.requests = 1, .total_tokens = 29}});
  daemon.usage.push_back(usage);
  EXPECT_EQ(run({"ai", "usage", "web"}), 0);
  EXPECT_THAT(out,
              HasSubstr("web: 29 of 250 tokens (19 input, 10 output), 1 requests, 2 unknown\n"));
  EXPECT_THAT(out, HasSubstr("gpt-4o"));
  EXPECT_EQ(run({"ai", "usage", "--json"}), 0);
  EXPECT_THAT(out, HasSubstr("\"max_total_tokens\":250"));
  EXPECT_THAT(failure({"ai", "usage", "other"}), HasSubstr("no sandbox 'other'"));

  EXPECT_EQ(run({"ai", "budget", "set", "web", "--max-requests", "9", "--max-cost", "2.50"}), 0);
  EXPECT_THAT(out, HasSubstr("29 of 250 tokens"));
  EXPECT_THAT(out, HasSubstr("1 of 9 requests, $0.00 of $2.50"));
  EXPECT_EQ(run({"ai", "budget", "set", "web", "--of", "openai", "--max-requests", "9"}), 0);
  EXPECT_EQ(daemon.budget.of, "openai");
  EXPECT_EQ(daemon.budget.budget->max_requests, 9U);
  EXPECT_FALSE(daemon.budget.budget->max_total_tokens);
  EXPECT_THAT(failure({"ai", "budget", "set", "web", "--of", "me", "--max-requests", "9"}),
              HasSubstr("--of must be a provider, such as openai, or run, not 'me'"));
  daemon.usage[0].budgets = {{"openai", {.max_total_tokens = 100}, {.total_tokens = 29}},
                             {"run", {.max_requests = 50, .max_cost = "2"}, {}}};
  EXPECT_EQ(run({"ai", "usage", "web"}), 0);
  EXPECT_THAT(out,
              HasSubstr("\n  openai: 29 of 100 tokens\n  run: at most 50 requests, at most $2\n"));
  EXPECT_EQ(run({"ai", "budget", "set", "web", "--max-total-tokens", "0"}), 0);
  EXPECT_THAT(out, HasSubstr("web: 29 tokens"));
  EXPECT_EQ(run({"ai", "budget", "reset", "web"}), 0);
  EXPECT_THAT(daemon.calls, testing::Contains("ai budget web reset"));
  EXPECT_THAT(failure({"ai", "budget", "set", "web"}), HasSubstr("say which limit"));
  EXPECT_THAT(failure({"ai", "budget", "drop", "web"}), HasSubstr("set or reset"));
  EXPECT_THAT(failure({"ai", "budget", "set", "web", "--max-cost", "much"}),
              HasSubstr("must be dollars"));
  EXPECT_EQ(run({"metrics"}), 0);
  EXPECT_THAT(out, HasSubstr("mvm_up 1"));
}

TEST_F(Actions, UpTakesBudgetsOfProvidersAndRuns) {
  EXPECT_EQ(
      run({"up", "web", "--ai-budget", "openai max_cost=5", "--ai-budget", "run max_requests=50"}),
      0);
  EXPECT_EQ(daemon.created.front().network.ai.budgets,
            (Words{"openai max_cost=5", "run max_requests=50"}));
  EXPECT_TRUE(daemon.created.front().network.ai.on());
  for (const char* bad : {"openai", "me max_requests=1", "run max_requests=0", "run requests=1",
                          "run max_requests=-1", "run max_requests"})
    EXPECT_THAT(failure({"up", "web", "--ai-budget", bad}), HasSubstr("must be a provider or"));
  EXPECT_THAT(failure({"up", "web", "--no-network", "--ai-budget", "run max_requests=1"}),
              HasSubstr("contradict"));
}

TEST_F(Actions, UpTakesATokenBudget) {
  EXPECT_EQ(run({"up", "web", "--ai-token-budget", "250000"}), 0);
  EXPECT_EQ(daemon.created.front().network.ai.budget.max_total_tokens, 250'000U);
  EXPECT_TRUE(daemon.created.front().network.ai.on());
  EXPECT_THAT(failure({"up", "web", "--no-network", "--ai-token-budget", "1"}),
              HasSubstr("contradict"));
}

TEST_F(Actions, PolicyExplainRefusesWhatIsNoRequest) {
  EXPECT_THAT(failure({"policy", "explain", "ftp://a.example"}), HasSubstr("neither http://"));
  EXPECT_THAT(failure({"policy", "explain", "GET", "https://a.example", "x"}),
              HasSubstr("at most a method and a URL"));
  EXPECT_THAT(failure({"policy", "explain", "a.example:0"}), HasSubstr("no port from 1 to 65535"));
  EXPECT_THAT(failure({"policy", "explain", "a b"}), HasSubstr("neither a host name nor"));
}

// ---- flakes that were built before: the builder is not asked for

class BuiltBefore : public Actions {
 protected:
  BuiltBefore() {
    write("flake.nix", "{ }");
    api::Image builder;
    builder.name = "mvm-builder";
    builder.digest = "b";
    daemon.image_list.push_back(builder);
    daemon.adopted.emplace();
    daemon.adopted->digest = "0123456789abcdef";
    daemon.adopted->size = uint64_t{3} << 20;
  }
};

TEST_F(BuiltBefore, BuildSaysThatNothingHasChanged) {
  EXPECT_EQ(run({"build", "--name", "web"}), 0);
  EXPECT_THAT(out, testing::MatchesRegex(
                       "image web: nothing has changed, 0123456789ab \\([0-9]+\\.[0-9] s\\)\n"));
  EXPECT_THAT(daemon.calls, testing::ElementsAre("adopt_image web"));
  EXPECT_EQ(run({"build", folder.path(), "--name", "web", "--json"}), 0);
  EXPECT_THAT(out, HasSubstr("\"unchanged\":true"));
}

TEST_F(BuiltBefore, BuildNamesTheImageAfterTheManifestTheFolderAndThePackage) {
  write("mvm.toml", "name = \"agent\"\n");
  run({"build"});
  EXPECT_EQ(daemon.calls.back(), "adopt_image agent");
  write("mvm.toml", "cpus = 1\n");
  const std::string base = folder.path().substr(folder.path().rfind('/') + 1);
  run({"build", "--flake", ".#packages.x86_64-linux.web"});
  EXPECT_EQ(daemon.calls.back(), "adopt_image " + base + "-web");
  run({"build", "--profile", "job"});
  EXPECT_EQ(daemon.calls.back(), "adopt_image " + base + "-job");
  EXPECT_THAT(failure({"build", "--flake", ".#web", "--profile", "job"}), HasSubstr("another"));
}

TEST_F(BuiltBefore, UpStartsFromWhatTheFlakeMakes) {
  EXPECT_EQ(run({"up", "web", "--flake", "."}), 0);
  EXPECT_EQ(daemon.created.front().image, "web");
  write("mvm.toml", "name = \"box\"\nflake = \".\"\nflake_profile = \"job\"\n");
  EXPECT_EQ(run({"up"}), 0);
  EXPECT_EQ(daemon.created.back().image, "box");
  // What is said last counts; both in one place is a contradiction.
  EXPECT_EQ(run({"up", "other", "--image", "base"}), 0);
  EXPECT_EQ(daemon.created.back().image, "base");
  EXPECT_THAT(failure({"up", "x", "--image", "base", "--flake", "."}), HasSubstr("contradict"));
  write("mvm.toml", "flake = \".\"\nimage = \"base\"\n");
  EXPECT_THAT(failure({"up", "x"}), HasSubstr("contradict"));
}

TEST_F(BuiltBefore, BuildNeedsABuilderImageAndAFlake) {
  daemon.image_list.clear();
  EXPECT_THAT(failure({"build"}), HasSubstr("no image 'mvm-builder' for the builder"));
  EXPECT_THAT(failure({"build", "missing"}), HasSubstr("missing"));
  EXPECT_THAT(failure({"build", "--override-input", "nixpkgs"}), HasSubstr("INPUT=FOLDER"));
  EXPECT_THAT(failure({"build", "--quiet", "--verbose"}), HasSubstr("contradict"));
}

// The control socket of FakeDaemon's sandboxes is nowhere, so there the build ends.
TEST_F(BuiltBefore, OtherwiseTheBuilderIsMadeAsTheSettingsSay) {
  daemon.adopted.reset();
  failure({"build"});
  ASSERT_EQ(daemon.created.size(), 1U);
  const api::SandboxSpec spec = daemon.created.front();
  EXPECT_EQ(spec.name, "mvm-builder");
  EXPECT_EQ(spec.image, "mvm-builder");
  EXPECT_EQ(spec.memory, uint64_t{4} << 30);
  EXPECT_EQ(spec.disk, uint64_t{64} << 30);
  EXPECT_EQ(spec.user, "0:0");
  EXPECT_TRUE(spec.network.enabled);
  EXPECT_EQ(spec.network.allow_hosts,
            preset_hosts("nix", [] { return std::vector<std::string>{}; }));
  EXPECT_THAT(spec.network.allow_hosts, testing::Contains("cache.nixos.org"));

  daemon.by_name.clear();
  write("mvm.toml",
        "[builder]\nimage = \"mvm-builder\"\ncpus = 3\nmem = \"2G\"\ndisk = \"9G\"\n"
        "network = \"none\"\nallow_hosts = [\"cache.example\"]\n");
  failure({"build"});
  ASSERT_EQ(daemon.created.size(), 2U);
  EXPECT_EQ(daemon.created.back().cpus, 3U);
  EXPECT_EQ(daemon.created.back().memory, uint64_t{2} << 30);
  EXPECT_EQ(daemon.created.back().disk, uint64_t{9} << 30);
  EXPECT_THAT(daemon.created.back().network.allow_hosts, ElementsAre("cache.example"));
}

// Its store is on a disk of its own, which the next builder gets.
TEST_F(BuiltBefore, TheBuilderIsMadeAnewWhenSettingsOrItsImageChange) {
  daemon.adopted.reset();
  failure({"build"});
  ASSERT_TRUE(daemon.created.back().kept_disk);
  EXPECT_EQ(daemon.created.back().kept_disk->path, "/nix");
  EXPECT_EQ(daemon.created.back().kept_disk->size, uint64_t{64} << 30);
  const auto again = [&] {
    daemon.calls.clear();
    failure({"build"});
    return testing::PrintToString(daemon.calls);
  };
  EXPECT_THAT(again(), testing::Not(HasSubstr("remove")));
  daemon.image_list.back().digest = "another";
  // What was written is on the store's disk before.
  EXPECT_THAT(again(),
              testing::AllOf(HasSubstr("stop mvm-builder"), testing::Not(HasSubstr(" kill")),
                             HasSubstr("remove mvm-builder force")));
  EXPECT_EQ(daemon.created.size(), 2U);
  EXPECT_EQ(daemon.created.back().kept_disk->name, daemon.created.front().kept_disk->name);
  write("mvm.toml", "[builder]\nmem = \"2G\"\n");
  EXPECT_THAT(again(), HasSubstr("remove mvm-builder force"));
  EXPECT_EQ(daemon.created.size(), 3U);
  EXPECT_THAT(again(), testing::Not(HasSubstr("remove")));
}

TEST_F(BuiltBefore, TheBuildersImageIsPulledWhereItIsOfARegistry) {
  const std::string pinned = "registry.example/nixos/nix@sha256:" + std::string(64, 'a');
  write("mvm.toml", "[builder]\nimage = \"" + pinned + "\"\n");
  failure({"build"});
  EXPECT_THAT(daemon.calls, testing::Contains("pull_image " + pinned));
}

TEST_F(BuiltBefore, ResetRemovesTheStoreAlsoWithoutABuilder) {
  const std::string store = folder.path() + "/data/disks/mvm-builder.img";
  sys::make_directories(folder.path() + "/data/disks");
  sys::write_file_atomic(store, as_bytes(std::string(1 << 20, 'x')));
  EXPECT_EQ(run({"builder", "status"}), 0);
  EXPECT_THAT(out, HasSubstr("the store that was kept (1"));
  EXPECT_EQ(run({"builder", "reset"}), 0);
  EXPECT_EQ(out, "the builder is removed, with its store\n");
  EXPECT_FALSE(sys::exists(store));
  EXPECT_EQ(run({"builder", "reset"}), 0);
  EXPECT_EQ(out, "there is no builder\n");
}

TEST_F(BuiltBefore, TheBuilderIsNotMistakenForAnotherSandbox) {
  EXPECT_EQ(run({"builder", "status"}), 0);
  EXPECT_THAT(out, HasSubstr("no builder yet"));
  EXPECT_EQ(run({"builder", "reset"}), 0);
  EXPECT_EQ(run({"builder", "gc"}), 0);
  run({"up", "mvm-builder"});
  EXPECT_THAT(failure({"builder", "status"}), HasSubstr("is not mvm's builder"));
  EXPECT_THAT(failure({"builder", "reset"}), HasSubstr("is not mvm's builder"));
}

TEST(Tame, ShowsControlBytesAndLetsTextPass) {
  EXPECT_EQ(tame("plain\ttext\r\nü\n"), "plain\ttext\r\nü\n");
  EXPECT_EQ(tame("\x1b]52;c;x\x07"), "\\x1b]52;c;x\\x07");
  EXPECT_EQ(tame("over\rwrite"), "over\\x0dwrite");
  EXPECT_EQ(tame("\xc2\x9b"
                 "31m"),
            "\\x9b"
            "31m");
}

TEST_F(Actions, McpServesASandboxThatThereIs) {
  EXPECT_THAT(failure({"mcp", "web", "--redact", "--no-redact"}), HasSubstr("contradict"));
  EXPECT_EQ(failure({"mcp", "web"}), "there is no sandbox 'web'");
  // Until it runs, each call says so. This client has nothing to say.
  daemon.by_name["web"].name = "web";
  daemon.by_name["web"].state = api::SandboxState::Stopped;
  const sys::Fd input = sys::Fd(::dup(STDIN_FILENO));
  const sys::Fd nothing = sys::open_file("/dev/null", O_RDONLY);
  ::dup2(nothing.get(), STDIN_FILENO);
  EXPECT_EQ(run({"mcp", "web"}), 0);
  EXPECT_EQ(err, "mvm: sandbox 'web' is stopped; `mvm up web` starts it\n");
  ::dup2(input.get(), STDIN_FILENO);
}

}
}
