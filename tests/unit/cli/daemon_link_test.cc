// Starting the daemon writes to two files; neither may be somebody else's.
#include "../../../src/cli/daemon_link.h"

#include <gtest/gtest.h>

#include "../../support/plants.h"

namespace mvm::cli {

TEST(DaemonLink, TouchesNothingElse) {
  const sys::TempDir temporary;
  const store::Paths paths(temporary.path() + "/run", temporary.path() + "/data");
  paths.ensure_runtime();
  paths.ensure_data();
  for (const std::string& path : {paths.runtime() + "/start.lock", paths.daemon_log()}) {
    for (const test::Plant plant : test::kPlants) {
      SCOPED_TRACE(path + ": " + test::plant_name(plant));
      const test::Victim victim;
      test::put(plant, path, victim);
      try {
        find_or_start_daemon(paths);
        ADD_FAILURE() << "it starts";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Kind::Denied) << error.message();
      }
      EXPECT_TRUE(victim.untouched());
      sys::remove_tree(path);
    }
  }
}

}
