// Results as a client sees them, with the agent itself at the other end: files, failures, what is
// redacted, the network.
#include <filesystem>

#include "session.h"

namespace mvm::mcp {
namespace {

using testing::ElementsAre;

// ---- files ----

TEST_F(WithSandbox, WritesAndReadsFiles) {
  Session session(target());
  session.initialize();
  auto got =
      session.call("write_file", {{"path", in("a")}, {"content", "grüße\n"}, {"mode", "0640"}});
  EXPECT_EQ(got["status"], "ok");
  EXPECT_EQ(got["bytes"], 8);
  EXPECT_EQ(text("a"), "grüße\n");
  EXPECT_EQ(std::filesystem::status(in("a")).permissions(), std::filesystem::perms(0640));
  got = session.call("read_file", {{"path", in("a")}});
  EXPECT_EQ(got["content"], "grüße\n");
  EXPECT_EQ(got["encoding"], "utf-8");
  EXPECT_EQ(got["size"], 8);
  EXPECT_EQ(got["truncated"], false);
  EXPECT_FALSE(got.contains("next_offset"));

  session.call("write_file", {{"path", in("b")}, {"content", "AP8="}, {"encoding", "base64"}});
  EXPECT_EQ(text("b"), std::string("\0\xff", 2));
  got = session.call("read_file", {{"path", in("b")}});
  EXPECT_EQ(got["content"], "AP8=");
  EXPECT_EQ(got["encoding"], "base64");

  const std::string big(kMaxContent, 'x');
  EXPECT_EQ(session.call("write_file", {{"path", in("c")}, {"content", big}})["bytes"],
            kMaxContent);
  EXPECT_EQ(text("c"), big);
}

// In windows that join, and do not cut characters.
TEST_F(WithSandbox, ReadsAFileInPieces) {
  std::string all;
  for (int i = 0; i < 50; ++i) all += "a€";
  make("a", all);
  Session session(target());
  session.initialize();
  std::string joined;
  json::Value offset = 0;
  while (true) {
    const auto got =
        session.call("read_file", {{"path", in("a")}, {"offset", offset}, {"limit", 6}});
    EXPECT_EQ(got["encoding"], "utf-8") << offset;
    EXPECT_EQ(got["size"], all.size());
    joined += got["content"].get<std::string>();
    EXPECT_EQ(got["truncated"], got.contains("next_offset"));
    if (!got.contains("next_offset")) break;
    offset = got["next_offset"];
  }
  EXPECT_EQ(joined, all);
  EXPECT_EQ(session.call("read_file", {{"path", in("a")}, {"offset", 1000}})["content"], "");
}

TEST_F(WithSandbox, ListsAFolder) {
  sys::make_directories(in("d/sub"), 0755);
  make("d/file", "12345");
  std::filesystem::create_symlink("file", in("d/link"));
  make("d/\xff", "");
  Session session(target());
  session.initialize();
  auto got = session.call("list_files", {{"path", in("d")}});
  EXPECT_EQ(got["truncated"], false);
  std::map<std::string, json::Value> entries;
  for (const auto& entry : got["entries"]) entries[entry["name"]] = entry;
  EXPECT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries["file"]["type"], "file");
  EXPECT_EQ(entries["file"]["size"], 5);
  EXPECT_EQ(entries["file"]["mode"], "0644");
  EXPECT_EQ(entries["sub"]["type"], "directory");
  EXPECT_EQ(entries["link"]["target"], "file");
  EXPECT_EQ(entries["\xEF\xBF\xBD"]["lossy"], true);
  got = session.call("list_files", {{"path", in("d")}, {"limit", 2}});
  EXPECT_EQ(got["entries"].size(), 2U);
  EXPECT_EQ(got["truncated"], true);
}

// ---- failures: each of its own kind ----

TEST_F(WithSandbox, TellsKindsOfFailureApart) {
  Session session(target());
  session.initialize();
  const auto failed = [&](const char* tool, const json::Value& arguments) {
    const auto got = session.call(tool, arguments);
    EXPECT_TRUE(session.is_error);
    EXPECT_EQ(got["sandbox"], "web");
    EXPECT_FALSE(got["message"].get<std::string>().empty());
    return got["status"].get<std::string>();
  };
  EXPECT_EQ(failed("run", {{"argv", "ls"}}), "invalid");
  EXPECT_EQ(failed("run", {{"argv", {"true", std::string(70'000, 'x')}}}), "limit");
  EXPECT_EQ(failed("read_file", {{"path", in("none")}}), "file_error");
  EXPECT_EQ(failed("read_file", {{"path", dir_.path()}}), "file_error");
  EXPECT_EQ(failed("write_file", {{"path", in("none/a")}, {"content", ""}}), "file_error");
  EXPECT_EQ(failed("list_files", {{"path", in("none")}}), "file_error");
}

TEST_F(Servers, SealedSandboxDeniesByPolicy) {
  const NativeSandbox sandbox(in("control.sock"), proto::Profile::Sealed);
  Session session(target());
  session.initialize();
  EXPECT_EQ(session.call("read_file", {{"path", "/etc/hostname"}})["status"], "policy_denied");
  EXPECT_TRUE(session.is_error);
  EXPECT_EQ(session.sh("exit 0")["status"], "ok");
  EXPECT_EQ(session.sh("exit 0")["status"], "policy_denied");
  EXPECT_TRUE(session.is_error);
}

TEST_F(Servers, SandboxThatDoesNotRunIsToldAndMayStartLater) {
  Session session(target());
  session.initialize();
  EXPECT_EQ(session.sh("exit 0")["status"], "transport");
  EXPECT_TRUE(session.is_error);
  {
    const NativeSandbox sandbox(in("control.sock"));
    EXPECT_EQ(session.sh("exit 0")["status"], "ok");
  }
  EXPECT_EQ(session.sh("exit 0")["status"], "transport");
}

TEST_F(Servers, SandboxThatSpeaksGarbageIsNoEndOfTheServer) {
  const sys::Fd listener = sys::listen_unix(in("control.sock"));
  std::thread sandbox([&] {
    sys::wait_readable(listener.get());
    const auto client = sys::accept_connection(listener.get());
    sys::send_some(client->get(), as_bytes("GET / HTTP/1.1 and so on, of no frame\r\n\r\n"));
    sys::wait_readable(client->get());
  });
  Session session(target());
  session.initialize();
  EXPECT_EQ(session.sh("exit 0")["status"], "transport");
  sandbox.join();
  session.send(R"({"jsonrpc":"2.0","id":7,"method":"ping"})");
  EXPECT_EQ(session.next().at("id"), 7);
}

// ---- redaction ----

TEST_F(WithSandbox, RedactsOutputAndFiles) {
  make("a", "to jane.doe@example.com, bye");
  Session session(target(true));
  session.initialize();
  auto got = session.sh("echo jane.doe@example.com; echo 4111 1111 1111 1111 >&2");
  EXPECT_EQ(got["stdout"], "[redacted]\n");
  EXPECT_EQ(got["stderr"], "[redacted]\n");
  EXPECT_EQ(got["redacted"], true);
  got = session.call("read_file", {{"path", in("a")}});
  EXPECT_EQ(got["content"], "to [redacted], bye");
  EXPECT_EQ(got["redacted"], true);
}

// No window of a file shows half of a value, wherever it is cut.
TEST_F(WithSandbox, RedactedWindowsJoin) {
  make("a", "to jane.doe@example.com, bye");
  Session session(target(true));
  session.initialize();
  for (const size_t limit : {1, 5, 11}) {
    std::string joined;
    json::Value offset = 0;
    while (true) {
      const auto got =
          session.call("read_file", {{"path", in("a")}, {"offset", offset}, {"limit", limit}});
      joined += got["content"].get<std::string>();
      if (!got.contains("next_offset")) break;
      offset = got["next_offset"];
    }
    EXPECT_EQ(joined, "to [redacted], bye");
  }
  EXPECT_EQ(session.call("read_file", {{"path", in("a")}, {"offset", kMaxOffset}})["status"],
            "limit");
}

TEST_F(WithSandbox, AsksForEachSandboxWhetherToRedact) {
  Target asked = target();
  std::vector<std::string> ids;
  asked.redacts = [&](const std::string& id) {
    ids.push_back(id);
    return true;
  };
  Session session(asked);
  session.initialize();
  session.sh("true");
  session.call("read_file", {{"path", "/etc/hostname"}});
  session.close();
  EXPECT_THAT(ids, ElementsAre("sb-native", "sb-native"));
}

// ---- the network ----

TEST_F(Servers, TellsWhatTheNetworkRefused) {
  Target asked = target();
  std::string run;
  asked.refusals = [&](const std::string& of) {
    run = of;
    if (of == "none") throw Error(Kind::NotFound, "there is no audit log of web");
    return Refusals{{{"a.example:443", "policy_denied", "--allow-host a.example", false},
                     {"b\x1b.example:80", "port", "", true}},
                    7};
  };
  Session session(asked);
  session.initialize();
  auto got = session.call("network_refusals", {{"run_id", "run-1"}});
  EXPECT_EQ(run, "run-1");
  EXPECT_EQ(
      json::dump(got["refusals"]),
      R"([{"allow":"--allow-host a.example","reason":"policy_denied","what":"a.example:443"},)"
      R"({"let_through":true,"reason":"port","what":"b\\x1b.example:80"}])");
  EXPECT_EQ(got["more"], 7);
  EXPECT_EQ(got["run_id"], "run-1");
  got = session.call("network_refusals", json::Value::object());
  EXPECT_EQ(run, "");
  got = session.call("network_refusals", {{"run_id", "none"}});
  EXPECT_EQ(got["message"], "there is no audit log of web");
  EXPECT_EQ(got["status"], "internal");
}

}
}
