// File verbs, metrics, tcp and profiles on the wire: what is written is read, and what makes no
// sense is refused.
#include "mvm/proto/files.h"

#include <gtest/gtest.h>

#include "mvm/proto/cbor.h"
#include "mvm/proto/forward.h"
#include "mvm/proto/metrics.h"
#include "mvm/proto/profile.h"
#include "mvm/proto/sandbox_config.h"

namespace mvm::proto {
namespace {

template <typename Message>
void expect_round_trip(const Message& message) {
  const Bytes encoded = message.encode();
  EXPECT_EQ(Message::decode(encoded), message);
  for (size_t length = 0; length < encoded.size(); ++length)
    EXPECT_FALSE(Message::decode(ByteView(encoded).first(length))) << length;
}

const FilePlace kAbsolute{"", "/etc/passwd"};
const FilePlace kRooted{"/work", "a/b"};

TEST(FileMessages, RoundTrip) {
  const FileStatus status{FileType::Symlink, 07777, 1, 2, 3, 4, 5, 6, -7, 8, "target"};
  expect_round_trip(StatRequest{kRooted, true});
  expect_round_trip(status);
  expect_round_trip(ListRequest{kAbsolute, 10});
  expect_round_trip(ListEntry{"name", status});
  expect_round_trip(ListResult{3, true});
  expect_round_trip(ReadRequest{kRooted, uint64_t{5} << 30, 0});
  expect_round_trip(ReadResult{1, 2});
  expect_round_trip(WriteRequest{kAbsolute, 7, false, true, 0600, "user", 100, true});
  expect_round_trip(WriteRequest{kRooted, std::nullopt, true, false, std::nullopt, "", 1, false});
  expect_round_trip(WriteResult{9});
  expect_round_trip(MakeDirectoryRequest{kRooted, 0700, true, "1:2"});
  expect_round_trip(RenameRequest{kAbsolute, "/etc/other", true});
  expect_round_trip(RemoveRequest{kRooted, true});
  expect_round_trip(RemoveResult{4});
  expect_round_trip(WatchRequest{kAbsolute});
  expect_round_trip(WatchEvent{WatchKind::MovedTo, "name", 5});
  expect_round_trip(WatchEvent{WatchKind::Overflow, "", 0});
  expect_round_trip(Metrics{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  expect_round_trip(TcpRequest{8080});
}

TEST(FileMessages, PlacesThatMakeNoSenseAreRefused) {
  for (const FilePlace& place :
       {FilePlace{"", "relative"}, FilePlace{"", ""}, FilePlace{"/root", "/absolute"},
        FilePlace{"/root", ""}, FilePlace{"relative", "x"}, FilePlace{"", std::string("/a\0b", 4)},
        FilePlace{"", "/" + std::string(kMaxPath, 'x')}})
    EXPECT_FALSE(StatRequest::decode(StatRequest{place, false}.encode())) << place.path;
  EXPECT_FALSE(RenameRequest::decode(RenameRequest{kRooted, "/out", false}.encode()));
  EXPECT_FALSE(WriteRequest::decode(WriteRequest{kRooted, 1, true}.encode()));
  EXPECT_FALSE(TcpRequest::decode(TcpRequest{0}.encode()));
}

TEST(FileMessages, NamesThatLeadElsewhereAreRefused) {
  for (const char* name : {"", ".", "..", "a/b", "/"})
    EXPECT_FALSE(ListEntry::decode(ListEntry{name, {}}.encode())) << name;
  for (const char* name : {".", "..", "a/b"})
    EXPECT_FALSE(WatchEvent::decode(WatchEvent{WatchKind::Created, name, 0}.encode())) << name;
}

TEST(Records, AreCutAnywhere) {
  Bytes stream;
  const std::vector<std::string> texts{"one", std::string(kMaxRecord, 'x'), "three"};
  for (const auto& text : texts) append_record(stream, as_bytes(text));
  for (const size_t step : {size_t{1}, size_t{3}, size_t{4097}, stream.size()}) {
    RecordDecoder decoder;
    std::vector<std::string> seen;
    for (size_t at = 0; at < stream.size(); at += step) {
      ByteView piece = ByteView(stream).subspan(at, std::min(step, stream.size() - at));
      while (const auto record = decoder.next(piece)) seen.emplace_back(as_text(*record));
      EXPECT_TRUE(piece.empty());
    }
    EXPECT_EQ(seen, texts) << step;
    EXPECT_FALSE(decoder.midway());
  }
}

TEST(Records, OfNoPossibleSizeAreAFault) {
  for (const uint32_t length : {0U, uint32_t{kMaxRecord} + 1, UINT32_MAX}) {
    Bytes stream;
    Writer(stream).u32(length);
    ByteView data = stream;
    RecordDecoder decoder;
    EXPECT_FALSE(decoder.next(data));
    EXPECT_TRUE(decoder.faulted());
  }
}

TEST(Profile, DevRefusesNothing) {
  ProfileGate gate(Profile::Dev);
  for (const std::string_view verb : {kExecVerb, kExecVerb, kWriteVerb, std::string_view("put")})
    EXPECT_FALSE(gate.refuse(verb));
}

TEST(Profile, SealedTakesOneCommandAndNoFileVerb) {
  ProfileGate gate(Profile::Sealed);
  EXPECT_FALSE(gate.refuse(kExecVerb));
  const auto second = gate.refuse(kExecVerb);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->kind, Kind::Denied);
  EXPECT_NE(second->message.find("profile 'sealed' refuses a second command"), std::string::npos);
  for (const std::string_view verb :
       {kStatVerb, kListVerb, kReadVerb, kWriteVerb, kMakeDirectoryVerb, kRenameVerb, kRemoveVerb,
        kWatchVerb, std::string_view("put"), std::string_view("get"), std::string_view("new")}) {
    const auto refusal = gate.refuse(verb);
    ASSERT_TRUE(refusal) << verb;
    EXPECT_NE(refusal->message.find("'" + std::string(verb) + "'"), std::string::npos);
  }
  for (const std::string_view verb :
       {kPingVerb, kInfoVerb, kMetricsVerb, kSyncTimeVerb, kTcpVerb, kTrustVerb, kShutdownVerb})
    EXPECT_FALSE(gate.refuse(verb)) << verb;
}

TEST(Profile, TravelsToTheSandboxProcess) {
  SandboxConfig config;
  config.id = "x";
  config.profile = Profile::Sealed;
  const auto decoded = SandboxConfig::decode(config.encode());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->profile, Profile::Sealed);
}

TEST(ExecLimitMessages, RoundTripAndBounds) {
  ExecRequest request;
  request.argv = {"true"};
  request.groups = {"video", "7"};
  request.rlimits = {{7, 1, 2}, {0, 5, kUnlimited}};
  request.limits = {1 << 20, 5, 500};
  expect_round_trip(request);
  request.rlimits = {{7, 2, 1}};
  EXPECT_FALSE(ExecRequest::decode(request.encode())) << "soft above hard";
  request.rlimits = {{7, 1, 2}, {7, 1, 2}};
  EXPECT_FALSE(ExecRequest::decode(request.encode())) << "a resource twice";
  request.rlimits = {{16, 1, 2}};
  EXPECT_FALSE(ExecRequest::decode(request.encode())) << "no such resource";
  ExecResult result;
  result.signal = 9;
  result.out_of_memory = true;
  expect_round_trip(result);
}

}
}
