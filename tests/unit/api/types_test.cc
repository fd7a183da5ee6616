#include "mvm/api/types.h"

#include <gtest/gtest.h>

namespace mvm::api {

static std::string complaint_about(std::string_view json) {
  try {
    decode_spec(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Invalid);
    return error.message();
  }
  return "accepted";
}

TEST(SandboxSpec, RoundTrips) {
  SandboxSpec spec;
  spec.name = "web";
  spec.image = "base";
  spec.kernel = "tuned";
  spec.cpus = 4;
  spec.memory = uint64_t{3} << 30;
  spec.disk = uint64_t{5} << 40;
  spec.disk_bandwidth = 50 << 20;
  spec.disk_iops = 1000;
  spec.env = {{"A", "b=c \"d\"\n"}, {"ÄÖ", ""}};
  spec.workdir = "/work";
  spec.user = "agent";
  spec.hostname = "h";
  spec.labels = {{"team", "x"}};
  spec.ports = {{IpAddress::parse("::1").value(), 8080, 80}};
  spec.ephemeral = true;
  spec.wait = false;
  spec.boot_timeout_ms = 1;
  EXPECT_EQ(decode_spec(encode(spec)), spec);
}

TEST(SandboxSpec, AbsentKeysKeepTheDefaults) {
  SandboxSpec expected;
  expected.image = "base";
  EXPECT_EQ(decode_spec(R"({"image": "base", "name": null})"), expected);
}

TEST(SandboxSpec, ComplaintsNameTheKey) {
  EXPECT_EQ(complaint_about(R"({})"), "sandbox: key \"image\" is missing");
  EXPECT_EQ(complaint_about(R"({"image":"b","memori":1})"),
            "sandbox: unknown key \"memori\", did you mean \"memory\"?");
  EXPECT_EQ(complaint_about(R"({"image":"b","zzzzzzzzzz":1})"),
            "sandbox: unknown key \"zzzzzzzzzz\"");
  EXPECT_EQ(complaint_about(R"({"image":7})"), "sandbox.image: must be a text");
  EXPECT_EQ(complaint_about(R"({"image":"a\u0000b"})"), "sandbox.image: must not hold a zero byte");
  for (const std::string value : {"-1", "1.5", "\"2\"", "true", "4294967296", "[]", "1e3"})
    EXPECT_EQ(complaint_about("{\"image\":\"b\",\"cpus\":" + value + "}"),
              "sandbox.cpus: must be a whole number from 0 to 4294967295")
        << value;
  EXPECT_EQ(complaint_about(R"({"image":"b","memory":18446744073709551616})"),
            "sandbox.memory: must be a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(complaint_about(R"({"image":"b","wait":"yes"})"),
            "sandbox.wait: must be true or false");
  EXPECT_EQ(complaint_about(R"({"image":"b","env":["A=b"]})"), "sandbox.env: must be an object");
  EXPECT_EQ(complaint_about(R"({"image":"b","env":{"A":1}})"), "sandbox.env.A: must be a text");
  EXPECT_EQ(complaint_about(R"(["image"])"), "sandbox: must be an object");
  EXPECT_EQ(complaint_about(R"({"image":"a","image":"b"})"),
            "sandbox: key \"image\" is there twice");
  EXPECT_EQ(complaint_about(R"({"image":"b","env":{"A":"1","A":"2"}})"),
            "sandbox: key \"A\" is there twice");
}

TEST(SandboxSpec, RefusesWhatIsNotJson) {
  for (const std::string_view text : {"", "{", "{\"image\":\"b\"} x", "{'image':'b'}",
                                      "{\"image\":\"\xff\"}", "{\"image\":\"b\",}", "// x\n{}"})
    EXPECT_NE(complaint_about(text).find("not valid JSON"), std::string::npos) << text;
  // Depth costs no stack.
  EXPECT_NE(complaint_about(std::string(100'000, '[')).find("nested too deep"), std::string::npos);
}

static Sandbox example() {
  Sandbox sandbox;
  sandbox.id = "sb-abc";
  sandbox.name = "web";
  sandbox.state = SandboxState::Crashed;
  sandbox.image = "base";
  sandbox.image_digest = "12ab";
  sandbox.kernel = "tuned";
  sandbox.cpus = 2;
  sandbox.memory = 1 << 30;
  sandbox.disk = 1 << 30;
  sandbox.disk_bandwidth = 4096;
  sandbox.disk_iops = 7;
  sandbox.created_at = "2026-01-01T00:00:00.000Z";
  sandbox.end = End{proto::EndReason::Panic, "not syncing"};
  sandbox.sandbox_pid = 7;
  sandbox.monitor_pid = 8;
  sandbox.labels = {{"a", "b"}};
  sandbox.limits = {1, 2, 3, 4, 5, 6};
  sandbox.ttl_left_ms = 3;
  sandbox.retention_left_ms = 0;
  return sandbox;
}

TEST(Sandbox, RoundTrips) {
  EXPECT_EQ(decode_sandbox(encode(example())), example());
  const std::vector<Sandbox> two{example(), Sandbox{}};
  EXPECT_EQ(decode_sandboxes(encode(two)), two);
}

TEST(Sandbox, AnswersOfANewerDaemonAreRead) {
  EXPECT_EQ(decode_sandbox(R"({"id":"a","name":"b","state":"running","novelty":[1]})").name, "b");
  EXPECT_THROW(decode_sandbox(R"({"id":"a","name":"b","state":"dancing"})"), Error);
}

TEST(SandboxState, EveryNameIsRead) {
  for (const auto state :
       {SandboxState::Queued, SandboxState::Starting, SandboxState::Running, SandboxState::Stopping,
        SandboxState::Stopped, SandboxState::Failed, SandboxState::Crashed})
    EXPECT_EQ(state_from_name(state_name(state)), state);
}

TEST(Others, RoundTrip) {
  const Image image{.name = "base:latest",
                    .names = {"base:latest", "b:1"},
                    .digest = "ab",
                    .source = "/x",
                    .source_kind = "tar",
                    .size = 1,
                    .content_bytes = 2,
                    .files = 3,
                    .created_at = "t",
                    .entrypoint = {"/init"},
                    .command = {"sh", "-l"},
                    .env = {"A=b"},
                    .workdir = "/w",
                    .user = "u",
                    .used_by = {"web"}};
  EXPECT_EQ(decode_image(encode(image)), image);
  EXPECT_EQ(decode_import_event(encode_import_image(image)).image, image);
  const ImportProgress progress{"reading", 5, 10, "note"};
  EXPECT_EQ(decode_import_event(encode_import_progress(progress)).progress, progress);
  const Version version{"1", 1, 2, "t", "/r", "/d", 3};
  EXPECT_EQ(decode_version(encode(version)), version);
  const std::vector<Kernel> kernels{{"tuned", "/k", 1, 2, true}};
  EXPECT_EQ(decode_kernels(encode(kernels)), kernels);
  EXPECT_EQ(decode_stop(encode(StopRequest{5, true})), (StopRequest{5, true}));
  EXPECT_EQ(decode_wait(encode(WaitRequest{5})), WaitRequest{5});
  EXPECT_EQ(decode_start(encode(StartRequest{false, 5})), (StartRequest{false, 5}));
  EXPECT_EQ(decode_import(encode(ImportRequest{"/x", "y"})), (ImportRequest{"/x", "y"}));
  const ImportRequest whole{"/x", "y", "v1", "linux/arm64", true};
  EXPECT_EQ(decode_import(encode(whole)), whole);
  CaptureRequest capture{"box", {"tar", "-c"}, "web", "/flake", "flake:1"};
  capture.env = {"A=1"};
  capture.labels = {{"k", "v"}};
  capture.attributes = {{"/tmp", 01777, 1, 2}};
  EXPECT_EQ(decode_capture(encode(capture)), capture);
  EXPECT_EQ(decode_adopt(encode(AdoptRequest{"flake:1", "web"})), (AdoptRequest{"flake:1", "web"}));
  const PullRequest pull{"a/b:c", "n", "linux/arm64", true};
  EXPECT_EQ(decode_pull(encode(pull)), pull);
  EXPECT_EQ(decode_tag(encode(TagRequest{"n"})), TagRequest{"n"});
  EXPECT_EQ(decode_prune(encode(PruneRequest{true, true})), (PruneRequest{true, true}));
  const PruneResult pruned{{"d"}, 2, 3};
  EXPECT_EQ(decode_prune_result(encode(pruned)), pruned);
}

TEST(Errors, RoundTripWithHint) {
  const ApiError error = decode_error(encode_error(Kind::Conflict, "exists \xff", "mvm rm web"));
  EXPECT_EQ(error.kind(), Kind::Conflict);
  EXPECT_EQ(error.message(), "exists \xef\xbf\xbd");  // made valid UTF-8 on the way
  EXPECT_EQ(error.hint(), "mvm rm web");
}

TEST(ImportEvent, IsExactlyOneThing) {
  EXPECT_THROW(decode_import_event("{}"), Error);
  EXPECT_THROW(decode_import_event(R"({"progress":{},"error":{"kind":"invalid","message":"x"}})"),
               Error);
}

}
