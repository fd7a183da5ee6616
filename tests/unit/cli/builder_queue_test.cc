#include "../../../src/cli/builder_queue.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/sys/file.h"

namespace mvm::cli {
namespace {

class BuilderQueue : public testing::Test {
 protected:
  BuilderQueue() : paths_(folder_.path() + "/run", folder_.path() + "/data") {
    paths_.ensure_data();
  }
  std::string queue() const { return paths_.data() + "/builder.queue"; }

  sys::TempDir folder_;
  store::Paths paths_;
};

TEST_F(BuilderQueue, LetsThemPassInTheOrderTheyCame) {
  std::optional<Ticket> first(std::in_place, paths_);
  std::optional<Ticket> second(std::in_place, paths_);
  std::optional<Ticket> third(std::in_place, paths_);
  EXPECT_TRUE(first->is_first());
  EXPECT_FALSE(second->is_first());
  EXPECT_FALSE(third->is_first());
  second.reset();  // it gave up
  EXPECT_FALSE(third->is_first());
  first.reset();
  const Ticket fourth(paths_);
  EXPECT_TRUE(third->is_first());
  EXPECT_FALSE(fourth.is_first());
  third.reset();
  EXPECT_TRUE(fourth.is_first());
}

TEST_F(BuilderQueue, DoesNotWaitForTheDeadNorForWhatIsNoTicket) {
  sys::make_directories(queue());
  sys::write_file_atomic(queue() + "/00000000000000000007", {});  // nobody holds it
  sys::write_file_atomic(queue() + "/notes", {});
  const Ticket ticket(paths_);
  EXPECT_TRUE(ticket.is_first());
  EXPECT_THAT(sys::list_directory(queue()), testing::ElementsAre("00000000000000000008", "notes"));
}

}
}
