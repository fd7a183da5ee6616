#include <string>

#include <gtest/gtest.h>

#include "mvm/proto/cbor.h"
#include "mvm/proto/control.h"
#include "mvm/proto/exec.h"

namespace mvm::proto {

using std::chrono::milliseconds;

static ExecRequest full_exec() {
  ExecRequest request;
  request.argv = {"printf", "%s", "\xFF not UTF-8", ""};
  request.env = {{"A", "1"}, {"EMPTY", ""}};
  request.clear_env = true;
  request.cwd = "/work";
  request.user = "dev:1000";
  request.stdin_open = true;
  request.tty = true;
  request.size = {24, 80};
  request.timeout = milliseconds(1500);
  request.kill_grace = milliseconds(0);
  request.max_output = 1 << 20;
  request.detach = true;
  return request;
}

template <typename Message>
static void expect_round_trip(const Message& message) {
  const Bytes wire = message.encode();
  EXPECT_EQ(Message::decode(wire), message);
  // Every cut and every appended byte is noticed.
  for (size_t size = 0; size < wire.size(); ++size)
    EXPECT_FALSE(Message::decode(ByteView(wire).first(size))) << "cut at " << size;
  Bytes longer = wire;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(Message::decode(longer));
}

TEST(Messages, RoundTrip) {
  expect_round_trip(full_exec());
  ExecRequest plain;
  plain.argv = {"true"};
  expect_round_trip(plain);
  expect_round_trip(ExecStarted{4711});
  expect_round_trip(ExecResult{3, 0, false, true});
  expect_round_trip(ExecResult{0, 9, true, false});
  expect_round_trip(Hello{1, "agent", "0.1.0"});
  expect_round_trip(AgentInfo{"0.1.0", "6.1.0", 12, 1ULL << 40, 5, 2});
  expect_round_trip(ShutdownRequest{milliseconds(250), 3});
  expect_round_trip(TrustRequest{"-----BEGIN CERTIFICATE-----\n", {}});
  expect_round_trip(TrustRequest{"-----BEGIN CERTIFICATE-----\n", {"/etc/a.pem", "/b"}});
  expect_round_trip(SyncTimeRequest{1764432000000000000});
  expect_round_trip(StopRequest{true, milliseconds(10)});
  expect_round_trip(SandboxEnd{EndReason::Panic, "the guest's kernel panicked"});
  SandboxStatus status{"sb-abc", "web", "running", 10, 11, 12, {}, {}, "no tun", {}, {}};
  expect_round_trip(status);
  status.ttl_left_ms = 0;
  status.idle_left_ms = 60'000;
  expect_round_trip(status);
  status.health = HealthStatus{Health::Unhealthy, 3, 12, HealthResult{17, {}, "timed out", "\xff"}};
  expect_round_trip(status);
  status.health->last->exit_code = 255;
  expect_round_trip(status);
  status.end = SandboxEnd{EndReason::Stopped, ""};
  expect_round_trip(status);
  expect_round_trip(HealthCheck{{"a", ""}, 1'000, 2'000, 0, 86'400'000, 1'000});
}

TEST(HealthCheck, ThatIsBeyondItsBoundsDoesNotDecode) {
  const HealthCheck good{{"true"}};
  EXPECT_EQ(good.complaint(), std::nullopt);
  const auto refused = [&](auto change) {
    HealthCheck bad = good;
    change(bad);
    EXPECT_TRUE(bad.complaint());
    EXPECT_FALSE(HealthCheck::decode(bad.encode())) << bad.complaint().value_or("");
  };
  refused([](HealthCheck& bad) { bad.interval_ms = kMinHealthMs - 1; });
  refused([](HealthCheck& bad) { bad.interval_ms = kMaxHealthMs + 1; });
  refused([](HealthCheck& bad) { bad.timeout_ms = UINT64_MAX; });
  refused([](HealthCheck& bad) { bad.start_period_ms = kMaxHealthMs + 1; });
  refused([](HealthCheck& bad) { bad.start_interval_ms = 0; });
  refused([](HealthCheck& bad) { bad.retries = 0; });
  refused([](HealthCheck& bad) { bad.retries = kMaxHealthRetries + 1; });
  refused([](HealthCheck& bad) { bad.command = {""}; });
  refused([](HealthCheck& bad) { bad.command = {std::string(kMaxHealthCommand + 1, 'x')}; });
  refused([](HealthCheck& bad) { bad.command.assign(kMaxHealthWords + 1, "x"); });
  refused([](HealthCheck& bad) { bad.command = {std::string("a\0b", 3)}; });
}

TEST(EndReason, EveryNameIsReadBackAndNoOther) {
  for (int i = 0; i <= static_cast<int>(EndReason::OutOfMemory); ++i) {
    const auto reason = static_cast<EndReason>(i);
    EXPECT_EQ(end_reason_from_name(end_reason_name(reason)), reason);
  }
  EXPECT_EQ(end_reason_from_name("timelimit"), std::nullopt);
}

TEST(ErrorReply, SaysThatAndWhyTheSandboxEnded) {
  const ErrorReply ended{Kind::Unavailable, "over", EndReason::TimeLimit};
  EXPECT_EQ(End::decode(encode_error(ended))->error, ended);
  const ErrorReply plain{Kind::NotFound, "no such command"};
  EXPECT_EQ(End::decode(encode_error(plain))->error, plain);
}

TEST(Messages, SkipUnknownFields) {
  Bytes wire;
  {
    MapWriter map(wire);
    map.string("verb", "exec");
    map.field("future").array(2);
    CborWriter(wire).null();
    CborWriter(wire).string("x");
    CborWriter argv = map.field("argv");
    argv.array(1);
    argv.string("true");
  }
  const auto request = ExecRequest::decode(wire);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->argv, std::vector<std::string>{"true"});
}

TEST(ExecRequest, NeedsACommand) {
  ExecRequest request;
  EXPECT_FALSE(ExecRequest::decode(request.encode()));
  request.argv = {""};
  EXPECT_FALSE(ExecRequest::decode(request.encode()));
}

TEST(ExecRequest, RefusesWhatTheKernelWouldMisread) {
  const auto refuses = [](auto change) {
    ExecRequest request = full_exec();
    change(request);
    return !ExecRequest::decode(request.encode());
  };
  EXPECT_TRUE(refuses([](ExecRequest& r) { r.argv[1] = std::string("a\0b", 3); }));
  EXPECT_TRUE(refuses([](ExecRequest& r) { r.env[0].first = "A=B"; }));
  EXPECT_TRUE(refuses([](ExecRequest& r) { r.env[0].first = ""; }));
  EXPECT_TRUE(refuses([](ExecRequest& r) { r.env[0].second = std::string("\0", 1); }));
  EXPECT_TRUE(refuses([](ExecRequest& r) { r.cwd = std::string("/\0", 2); }));
  EXPECT_TRUE(refuses([](ExecRequest& r) { r.cwd = std::string(kMaxPath + 1, 'c'); }));
  EXPECT_TRUE(refuses([](ExecRequest& r) { r.user = std::string(kMaxUserName + 1, 'u'); }));
  EXPECT_FALSE(refuses([](ExecRequest& r) { r.user = std::string(kMaxUserName, 'u'); }));
}

TEST(ExecRequest, BoundsArgumentsAndEnvironment) {
  ExecRequest request;
  request.argv.assign(kMaxArguments, "a");
  EXPECT_TRUE(ExecRequest::decode(request.encode()));
  request.argv.emplace_back("a");
  EXPECT_FALSE(ExecRequest::decode(request.encode()));

  request.argv = {"true"};
  for (size_t i = 0; i < kMaxEnvironment; ++i)
    request.env.emplace_back("V" + std::to_string(i), "");
  EXPECT_TRUE(ExecRequest::decode(request.encode()));
  request.env.emplace_back("ONE_MORE", "");
  EXPECT_FALSE(ExecRequest::decode(request.encode()));
}

TEST(ExecResult, NeedsAStatus) {
  const Bytes nothing{std::byte{0xA0}};
  EXPECT_FALSE(ExecResult::decode(nothing));
}

TEST(Envelope, CarriesAResultOrAnError) {
  const Bytes ok = encode_ok(ExecResult{7, 0, false, false}.encode());
  const auto end = End::decode(ok);
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->error);
  EXPECT_EQ(ExecResult::decode(end->result), (ExecResult{7, 0, false, false}));

  const Bytes none = encode_ok();
  ASSERT_TRUE(End::decode(none));
  EXPECT_FALSE(End::decode(none)->error);

  const Bytes failed = encode_error({Kind::NotFound, "no such command: foo"});
  const auto error = End::decode(failed);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error, (ErrorReply{Kind::NotFound, "no such command: foo"}));
}

TEST(Envelope, CutsLongMessages) {
  const Bytes wire = encode_error({Kind::Internal, std::string(kMaxMessage + 1, 'm')});
  EXPECT_EQ(End::decode(wire)->error->message.size(), kMaxMessage);
}

TEST(Envelope, IsEitherOkOrError) {
  EXPECT_FALSE(End::decode(Bytes{std::byte{0xA0}}));
  Bytes both;
  {
    MapWriter map(both);
    map.field("ok").null();
    map.field("error").map(0);
  }
  EXPECT_FALSE(End::decode(both));
}

TEST(Verbs, AreFoundWithoutDecodingTheRest) {
  const Bytes request = full_exec().encode();
  EXPECT_EQ(request_verb(request), "exec");
  const Bytes ping = encode_request(kPingVerb);
  EXPECT_EQ(request_verb(ping), "ping");
  const Bytes event = ExecStarted{1}.encode();
  EXPECT_EQ(event_name(event), "started");
  EXPECT_FALSE(request_verb(event));
  EXPECT_FALSE(request_verb(as_bytes("\xFF garbage")));
}

TEST(EndReason, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(EndReason::HostFault); ++i) {
    const auto reason = static_cast<EndReason>(i);
    EXPECT_EQ(end_reason_from_name(end_reason_name(reason)), reason);
  }
  EXPECT_FALSE(end_reason_from_name("bored"));
}

}
