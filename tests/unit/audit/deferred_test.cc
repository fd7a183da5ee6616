// Events that are put down together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/audit/writer.h"

#include "sample.h"

namespace mvm::audit {
namespace {

class AuditDeferred : public testing::Test {
 protected:
  Verdict verdict(std::optional<Head> known = std::nullopt) {
    return verify_log(folder_.path(), LogId("sb-test"), key_of('d').public_key(), known);
  }
  sys::TempDir folder_;
};

TEST_F(AuditDeferred, PutsDownTogetherWhatWasDeferred) {
  using Of = Writer::Of;
  Writer writer(session_in(folder_.path()), {}, no_failure());
  writer.defer(end_of(1), Of::WhatHasHappened);
  writer.defer(end_of(2), Of::WhatMayBeRefused);
  EXPECT_EQ(kinds_in(folder_.path()).size(), 1U);  // the log's own
  EXPECT_TRUE(writer.commit());
  EXPECT_EQ(kinds_in(folder_.path()).size(), 3U);
  writer.defer(end_of(3), Of::WhatMayBeRefused);
  append(writer, end_of(4));
  EXPECT_TRUE(writer.commit());  // nothing is left
  writer.defer(end_of(5), Of::WhatHasHappened);
  close(writer);
  EXPECT_THAT(kinds_in(folder_.path()),
              testing::ElementsAre(testing::_, "flow_ended 2", "flow_ended 1", "flow_ended 3",
                                   "flow_ended 4", "flow_ended 5", testing::_));
  EXPECT_EQ(told(verdict(writer.head())), "fine");
}

TEST_F(AuditDeferred, WhatHasHappenedWaitsUntilNobodyDoes) {
  using Of = Writer::Of;
  Writer writer(session_in(folder_.path()), {}, no_failure());
  writer.defer(end_of(1), Of::WhatHasHappened);
  EXPECT_TRUE(writer.commit(Of::WhatMayBeRefused));
  EXPECT_EQ(kinds_in(folder_.path()).size(), 1U);
  writer.defer(end_of(2), Of::WhatMayBeRefused);
  EXPECT_TRUE(writer.commit(Of::WhatMayBeRefused));
  EXPECT_THAT(kinds_in(folder_.path()), testing::ElementsAre(testing::_, "flow_ended 2"));
  EXPECT_TRUE(writer.commit());
  EXPECT_THAT(kinds_in(folder_.path()),
              testing::ElementsAre(testing::_, "flow_ended 2", "flow_ended 1"));
}

TEST_F(AuditDeferred, NothingWaitsWhereTheDiskIsWaitedFor) {
  using Of = Writer::Of;
  WriterOptions options;
  options.sync = Sync::Strict;
  Writer writer(session_in(folder_.path()), options, no_failure());
  writer.defer(end_of(1), Of::WhatHasHappened);
  EXPECT_TRUE(writer.commit(Of::WhatMayBeRefused));
  EXPECT_THAT(kinds_in(folder_.path()), testing::ElementsAre(testing::_, "flow_ended 1"));
}

// Of those that are put down together some may fit, and a part of the next.
TEST_F(AuditDeferred, KnowsWhichOfSeveralHadRoom) {
  using Of = Writer::Of;
  const int status = in_child([&] {
    WriterOptions options;
    options.retry = std::chrono::milliseconds(0);
    Writer writer(session_in(folder_.path()), options, [](const auto&) {});
    limit_files_to(2'000);  // in the middle of a record
    for (uint64_t flow = 1; flow <= 20; ++flow)
      writer.defer(end_of(flow), flow % 2 == 0 ? Of::WhatHasHappened : Of::WhatMayBeRefused);
    EXPECT_FALSE(writer.commit());
    EXPECT_TRUE(writer.commit());  // it has been said
    limit_files_to(RLIM_INFINITY);
    append(writer, end_of(21));
    close(writer);
  });
  EXPECT_EQ(status, 0);
  std::vector<std::string> ends;
  for (const std::string& kind : kinds_in(folder_.path()))
    if (kind.starts_with("flow_ended")) ends.push_back(kind);
  const Verdict after = verdict();
  EXPECT_EQ(told(after), "fine");
  EXPECT_GT(after.torn_bytes, 0U);
  // Of what may be refused, which is first, that which fitted; the rest of it is missed.
  std::vector<std::string> expected;
  for (uint64_t flow = 1; flow <= 20; flow += 2) {
    if (ends.at(expected.size()) != "flow_ended " + std::to_string(flow)) break;
    expected.push_back(ends[expected.size()]);
  }
  EXPECT_GT(expected.size(), 2U);
  EXPECT_LT(expected.size(), 10U);
  for (uint64_t flow = 2; flow <= 20; flow += 2)
    expected.push_back("flow_ended " + std::to_string(flow));
  expected.emplace_back("flow_ended 21");
  EXPECT_EQ(ends, expected);
  EXPECT_EQ(after.missed, 21 - expected.size());
}

}
}
