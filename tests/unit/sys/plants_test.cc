// What open_own_file, require_own_file and listen_unix do about what they find in their place.
#include "../../support/plants.h"

#include <gtest/gtest.h>

#include "mvm/sys/socket.h"

namespace mvm::sys {

TEST(OwnFile, RefusesWhatIsNotAFileOfOurs) {
  const TempDir dir;
  const std::string path = dir.path() + "/file";
  for (const test::Plant plant : test::kPlants) {
    for (const int flags : {O_RDONLY, O_RDWR, O_WRONLY | O_APPEND, O_RDWR | O_CREAT}) {
      SCOPED_TRACE(std::string(test::plant_name(plant)) + ", flags " + std::to_string(flags));
      const test::Victim victim;
      test::put(plant, path, victim);
      // To read what has another name is no harm.
      if (plant == test::Plant::HardLink && flags == O_RDONLY) continue;
      try {
        open_own_file(path, flags);
        ADD_FAILURE() << "it is opened";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Kind::Denied) << error.message();
      }
      EXPECT_THROW(require_own_file(path), Error);
      EXPECT_TRUE(victim.untouched());
    }
  }
}

TEST(OwnFile, OpensAndMakesOurs) {
  const TempDir dir;
  const std::string path = dir.path() + "/file";
  require_own_file(path);  // absent is fine
  EXPECT_THROW(open_own_file(path, O_RDWR), SystemError);
  EXPECT_TRUE(open_own_file(path, O_RDWR | O_CREAT));
  EXPECT_TRUE(open_own_file(path, O_RDONLY));
  require_own_file(path);
}

TEST(OwnFile, ReadsWithALimit) {
  const TempDir dir;
  write_file_atomic(dir.path() + "/file", as_bytes("text"));
  EXPECT_EQ(read_own_text_file(dir.path() + "/file", 4), "text");
  EXPECT_THROW(read_own_text_file(dir.path() + "/file", 3), Error);
}

TEST(AtomicWrite, TouchesNothingElse) {
  const TempDir dir;
  for (const test::Plant plant : test::kPlants) {
    SCOPED_TRACE(test::plant_name(plant));
    const test::Victim victim;
    test::put(plant, dir.path() + "/file", victim);
    try {
      write_file_atomic(dir.path() + "/file", as_bytes("new"));
      EXPECT_EQ(read_own_text_file(dir.path() + "/file", 3), "new");
    } catch (const Error&) {
      EXPECT_EQ(plant, test::Plant::Directory) << "everything else is replaced";
    }
    EXPECT_TRUE(victim.untouched());
  }
}

TEST(Listener, TouchesNothingElse) {
  const TempDir dir;
  for (const test::Plant plant : test::kPlants) {
    SCOPED_TRACE(test::plant_name(plant));
    const test::Victim victim;
    test::put(plant, dir.path() + "/socket", victim);
    EXPECT_THROW(listen_unix(dir.path() + "/socket"), Error);
    EXPECT_TRUE(victim.untouched());
  }
}

TEST(Listener, IsOursAloneFromTheFirstMoment) {
  const TempDir dir;
  const Fd listener = listen_unix(dir.path() + "/socket");
  struct stat status{};
  ASSERT_EQ(::lstat((dir.path() + "/socket").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

}
