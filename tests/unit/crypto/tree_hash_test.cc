#include "mvm/crypto/tree_hash.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::crypto {
namespace {

Bytes some_bytes(size_t size) {
  std::mt19937 source(7);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(source());
  return bytes;
}

// The definition, word by word.
Digest by_definition(ByteView bytes) {
  Bytes file;
  const std::string_view name = "mvm tree 1\n";
  file.insert(file.end(), as_bytes(name).begin(), as_bytes(name).end());
  for (int shift = 0; shift < 64; shift += 8)
    file.push_back(static_cast<std::byte>(uint64_t{bytes.size()} >> shift));
  for (size_t at = 0; at < bytes.size(); at += 1 << 20) {
    const Digest digest = sha256(bytes.subspan(at, std::min<size_t>(bytes.size() - at, 1 << 20)));
    file.insert(file.end(), digest.begin(), digest.end());
  }
  return sha256(file);
}

Digest of_file(ByteView bytes) {
  const sys::Fd file = sys::memory_file("tree", 0);
  sys::write_all(file.get(), bytes);
  return tree_of_file(file.get());
}

TEST(TreeHash, IsWhatItsDefinitionSays) {
  const Bytes bytes = some_bytes((3 << 20) + 70'001);
  for (const size_t size : {size_t{0}, size_t{1}, (size_t{1} << 20) - 1, size_t{1} << 20,
                            (size_t{1} << 20) + 1, size_t{3} << 20, bytes.size()}) {
    const ByteView part = ByteView(bytes).first(size);
    EXPECT_EQ(of_file(part), by_definition(part)) << size;
  }
}

// So that the form cannot change unseen; computed by another program.
TEST(TreeHash, OfThreeBytes) {
  EXPECT_EQ(digest_hex(of_file(as_bytes("abc"))),
            "58e9c8f994d92907b51250a7cb88206b537b4f7d3da3cbb600f91a3bbcaaddfb");
}

TEST(TreeHash, EveryByteCounts) {
  Bytes bytes = some_bytes(2 << 20);
  const Digest before = of_file(bytes);
  for (const size_t at : {size_t{0}, (size_t{1} << 20) - 1, size_t{1} << 20, bytes.size() - 1}) {
    bytes[at] ^= std::byte{1};
    EXPECT_NE(of_file(bytes), before) << at;
    bytes[at] ^= std::byte{1};
  }
  // Bytes that are there but zero are not bytes that are missing.
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_NE(of_file(longer), before);
}

TEST(TreeHash, TellsHowFarItIs) {
  const sys::Fd file = sys::memory_file("tree", 0);
  sys::write_all(file.get(), some_bytes((2 << 20) + 5));
  std::vector<uint64_t> seen;
  tree_of_file(file.get(), [&](uint64_t done) { seen.push_back(done); });
  EXPECT_EQ(seen, (std::vector<uint64_t>{1 << 20, 2 << 20, (2 << 20) + 5}));
}

}
}
