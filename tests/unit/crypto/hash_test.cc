#include "mvm/crypto/hash.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/crypto/random.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::crypto {
namespace {

// FIPS 180-2, appendix B.
constexpr std::string_view kOfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr std::string_view kOfMillionA =
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
constexpr std::string_view kOfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST(Sha256, AgreesWithTheStandardsVectors) {
  EXPECT_EQ(digest_hex(sha256(as_bytes("abc"))), kOfAbc);
  EXPECT_EQ(digest_hex(sha256({})), kOfNothing);
}

TEST(Sha256, DoesNotDependOnHowTheInputIsCut) {
  const std::string input(1'000'000, 'a');
  Sha256 hash;
  for (size_t at = 0, step = 1; at < input.size(); at += step, step = step * 2 + 1)
    hash.update(as_bytes(std::string_view(input).substr(at, step)));
  EXPECT_EQ(digest_hex(hash.finish()), kOfMillionA);
}

TEST(Sha256, ReadsAWholeFileWhereverItsOffsetStands) {
  const sys::Fd file = sys::memory_file("hash", 0);
  const std::string input(1'000'000, 'a');
  sys::write_all(file.get(), as_bytes(input));  // leaves the offset at the end
  uint64_t seen = 0;
  EXPECT_EQ(digest_hex(sha256_of_file(file.get(), [&](uint64_t done) { seen = done; })),
            kOfMillionA);
  EXPECT_EQ(seen, input.size());
}

TEST(RandomId, HasThePrefixTheLengthAndTheAlphabet) {
  const std::string id = random_id("sb-", 12);
  ASSERT_EQ(id.size(), 15U);
  EXPECT_THAT(id, ::testing::StartsWith("sb-"));
  EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567", 3), std::string::npos);
}

TEST(RandomId, DoesNotRepeat) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(random_id("", 12));
  EXPECT_EQ(ids.size(), 1000U);
}

}
}
