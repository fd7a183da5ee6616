// The audit commands on logs that a daemon and a sandbox's process could have left.
#include <fcntl.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/audit/log.h"
#include "mvm/audit/writer.h"
#include "mvm/cli/actions.h"
#include "mvm/cli/arguments.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "../../../src/cli/refusals.h"

namespace mvm::cli {
namespace {

using audit::LogId;
using audit::Name;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class AuditCommands : public testing::Test {
 protected:
  void SetUp() override {
    paths_.ensure_data();
    authority_ = std::make_unique<crypto::SigningKey>(audit::authority_key(paths_.audit_dir()));
    const audit::Head end = write_sandbox();
    auto log = writer("daemon", crypto::SigningKey(authority_->seed()));
    const LogId id("sb-web");
    append(*log, audit::SandboxCreated{id, Name("web"), Name("base:latest"),
                                       audit::DigestText(std::string(64, 'a'))});
    append(*log, audit::SandboxStarted{id, Name("web")});
    append(*log, audit::SandboxEnded{id, Name("web"), proto::EndReason::Exited, end});
    ASSERT_TRUE(log->close());
  }

  std::unique_ptr<audit::Writer> writer(const std::string& id, crypto::SigningKey key) {
    const std::string directory = paths_.audit_log(id);
    store::ensure_private_directory(directory);
    return std::make_unique<audit::Writer>(
        audit::open_log(directory, LogId(id), *authority_, std::move(key)), audit::WriterOptions{},
        [](const auto&) { ADD_FAILURE(); });
  }
  static void append(audit::Writer& log, const audit::Event& event) {
    ASSERT_TRUE(log.append(event));
  }

  audit::Head write_sandbox() {
    auto log = writer("sb-web", crypto::SigningKey::generate());
    append(*log, audit::ExecStarted{audit::RunId("run-one")});
    audit::Egress egress;
    egress.kind = audit::Egress::Kind::Http;
    egress.host = audit::HostName("api.example.com");
    egress.address = IpAddress::parse("192.0.2.7");
    egress.port = 443;
    egress.method = audit::Method("POST");
    egress.path = audit::Path("/v1/x?key=1");
    append(*log, egress);
    audit::AiUse use;
    use.told = audit::AiUse::Told::Unknown;
    use.host = audit::HostName("api.openai.com");
    use.port = 443;
    use.provider = audit::ClassName("openai");
    use.model = audit::ModelName("gpt-4o");
    use.input = use.total = 19;
    use.estimated = 400;
    append(*log, use);
    append(*log, audit::ExecEnded{audit::RunId("run-one"), 3, {}, false});
    append(*log, audit::ExecStarted{audit::RunId("run-two")});
    EXPECT_TRUE(log->close());
    return log->head();
  }

  int run(const Words& words) {
    const sys::Fd out = sys::memory_file("out", 0);
    const sys::Fd err = sys::memory_file("err", 0);
    Console console(out.get(), err.get(), {});
    Context context{console, [](std::string_view) { return std::nullopt; },
                    paths_,  temporary_.path(),
                    "test",  {},
                    {},      {}};
    const int code = run_command(context, std::get<Arguments>(parse_command_line(words)));
    out_ = content(out);
    err_ = content(err);
    return code;
  }
  static std::string content(const sys::Fd& file) {
    Bytes bytes(sys::file_size(file.get()));
    sys::pread_exact(file.get(), bytes, 0);
    return std::string(as_text(bytes));
  }
  std::string file() const { return paths_.audit_log("sb-web") + "/" + audit::file_name(1); }

  sys::TempDir temporary_;
  store::Paths paths_{temporary_.path() + "/run", temporary_.path() + "/data"};
  std::unique_ptr<crypto::SigningKey> authority_;
  std::string out_;
  std::string err_;
};

TEST_F(AuditCommands, ShowPrintsALineForEachRecord) {
  EXPECT_EQ(run({"audit", "show", "web"}), kFine);
  EXPECT_THAT(out_, HasSubstr("  deny   http     POST api.example.com:443 (192.0.2.7) /v1/x  "
                              "policy_denied\n"));
  EXPECT_THAT(out_, HasSubstr("  exec_ended sandbox_id=sb-web run_id=run-one exit_code=3\n"));
}

TEST_F(AuditCommands, ShowPrintsTheDaemonsLogWithoutAName) {
  EXPECT_EQ(run({"audit", "show", "--kind", "ended", "--json"}), kFine);
  EXPECT_THAT(out_, testing::StartsWith("{\"v\":1,\"seq\":4,"));
  EXPECT_THAT(out_, HasSubstr("\"kind\":\"ended\",\"sandbox_id\":\"sb-web\",\"name\":\"web\","
                              "\"reason\":\"exited\",\"log_seq\":7,"));
}

TEST_F(AuditCommands, TailPrintsTheLastAndFollowsToTheEnd) {
  EXPECT_EQ(run({"audit", "tail", "-f", "-n", "2", "web"}), kFine);
  EXPECT_THAT(out_, Not(HasSubstr("run-one")));
  EXPECT_THAT(out_, HasSubstr("run-two"));
  EXPECT_THAT(out_, HasSubstr("  close\n"));
}

TEST_F(AuditCommands, LogsOfEgressPrintTrafficAlone) {
  EXPECT_EQ(run({"logs", "web", "--egress", "-f"}), kFine);
  EXPECT_THAT(out_, HasSubstr("api.example.com"));
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 2);
}

TEST_F(AuditCommands, WhyPrintsWhatHappenedDuringTheRun) {
  EXPECT_EQ(run({"audit", "why", "run-one"}), kFine);
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 4);
  EXPECT_THAT(out_, HasSubstr("api.example.com"));
  EXPECT_THAT(out_,
              HasSubstr("  ai     unknown  openai gpt-4o, api.openai.com:443  input 19 output 0 "
                        "total 19 estimated 400\n"));
  EXPECT_EQ(err_, "");
  EXPECT_EQ(run({"audit", "why", "run-two"}), kFine);
  EXPECT_THAT(out_, Not(HasSubstr("api.example.com")));
  EXPECT_THROW(run({"audit", "why", "run-three"}), Error);
}

TEST_F(AuditCommands, VerifyIsFineWithWhatIsFine) {
  EXPECT_EQ(run({"audit", "verify"}), kFine);
  EXPECT_EQ(out_,
            "daemon: fine, 5 records, 2 signatures\n"
            "web (sb-web): fine, 7 records, 2 signatures\n");
}

TEST_F(AuditCommands, VerifyNamesWhatIsNot) {
  const std::string text = sys::read_text_file(file(), 1 << 20);
  std::string edited = text;
  edited.replace(edited.find("deny"), 4, "Deny");
  sys::write_file_atomic(file(), as_bytes(edited));
  EXPECT_EQ(run({"audit", "verify", "web"}), kNotWell);
  EXPECT_THAT(out_, HasSubstr("web (sb-web): BAD, edited, 000001.jsonl line 3, record 3: "));
  EXPECT_EQ(run({"audit", "verify", "web", "--json"}), kNotWell);
  EXPECT_THAT(out_,
              HasSubstr("\"wrong\":\"edited\",\"file\":\"000001.jsonl\",\"line\":3,\"seq\":3"));
}

TEST_F(AuditCommands, VerifySeesByTheDaemonsLogThatAnEndIsMissing) {
  const std::string text = sys::read_text_file(file(), 1 << 20);
  sys::write_file_atomic(file(), as_bytes(text.substr(0, text.rfind('{'))));
  EXPECT_EQ(run({"audit", "verify"}), kNotWell);
  EXPECT_THAT(out_, HasSubstr("BAD, truncated"));
  sys::remove_tree(paths_.audit_log("sb-web"));
  EXPECT_EQ(run({"audit", "verify"}), kNotWell);
  EXPECT_THAT(out_, HasSubstr("BAD, truncated: records 1 to 7 at the end: missing"));
}

TEST_F(AuditCommands, AnExportVerifiesElsewhere) {
  EXPECT_EQ(run({"audit", "export", "web"}), kFine);
  const std::string exported = temporary_.path() + "/web.jsonl";
  sys::write_file_atomic(exported, as_bytes(out_));
  EXPECT_EQ(run({"audit", "export", "--public-key"}), kFine);
  const std::string key = temporary_.path() + "/host.pub";
  sys::write_file_atomic(key, as_bytes(out_));
  sys::remove_tree(paths_.audit_dir());
  EXPECT_EQ(run({"audit", "verify", "--file", "web.jsonl", "--key", key}), kFine);
  EXPECT_EQ(out_, "sb-web: fine, 7 records, 2 signatures\n");
  EXPECT_THROW(run({"audit", "verify"}), Error);  // no key: it cannot be checked
}

TEST_F(AuditCommands, RefusesWhatMakesNoSense) {
  EXPECT_THROW(run({"audit", "show", "nobody"}), Error);
  EXPECT_THROW(run({"audit", "tail", "-n", "many"}), UsageError);
  EXPECT_THROW(run({"audit", "why", "RUN!"}), UsageError);
  EXPECT_THROW(run({"audit", "verify", "web", "--file", "x"}), UsageError);
}

TEST_F(AuditCommands, RefusalsAreToldOfARunOrOfAll) {
  const auto told = [&](const std::string& run) {
    const sys::Fd out = sys::memory_file("out", 0);
    const sys::Fd err = sys::memory_file("err", 0);
    Console console(out.get(), err.get(), {});
    Context context{console, [](std::string_view) { return std::nullopt; },
                    paths_,  temporary_.path(),
                    "test",  {},
                    {},      {}};
    tell_refusals(context, "sb-web", run, "mvm logs web --egress");
    EXPECT_EQ(content(out), "");
    return content(err);
  };
  EXPECT_EQ(told(""),
            "mvm: the network refused 1 thing; what would admit each:\n"
            "  POST api.example.com:443/v1/x  policy_denied  --allow-endpoint 'POST "
            "https://api.example.com:443/v1/x'\n");
  EXPECT_THAT(told("run-one"), HasSubstr("refused 1 thing meanwhile"));
  EXPECT_EQ(told("run-two"), "");
  EXPECT_EQ(told("run-none"), "");
}

TEST_F(AuditCommands, SuggestWritesRulesFromTheLog) {
  EXPECT_EQ(run({"policy", "suggest", "web"}), 0);
  EXPECT_EQ(out_,
            "# What web was refused, or reached by mode \"audit\" alone.\n[network]\n"
            "allow_endpoints = [\n  \"POST https://api.example.com:443/v1/x\",\n]\n");
}

}
}
