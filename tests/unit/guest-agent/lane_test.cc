// The lane of a copy into the sandbox, as a host that misbehaves or goes away uses it.
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "client.h"
#include "put.h"

namespace mvm::guest {

using proto::Entry;
using proto::FrameType;

class LaneTest : public testing::Test {
 protected:
  LaneTest() { sys::write_file_atomic(path_, as_bytes("old")); }

  uint32_t begin() {
    proto::PutRequest request;
    request.path = path_;
    return client_.request(request.encode());
  }
  // The start of a file that is `size` bytes long, with a chunk of `size` begun.
  static Bytes head(uint32_t size) {
    Bytes out;
    Entry entry;
    entry.mode = 0644;
    entry.size = size;
    proto::append_entry(out, entry);
    proto::append_chunk_head(out, size);
    return out;
  }
  static Bytes tail() {
    Bytes out;
    proto::append_content_end(out);
    proto::append_tree_end(out);
    return out;
  }
  size_t files() const { return sys::list_directory(directory_.path()).size(); }
  std::string content() const { return sys::read_text_file(path_, 8 << 20); }
  // Nothing of the copy is left.
  void expect_old() const {
    EXPECT_EQ(content(), "old");
    EXPECT_EQ(files(), 1U);
  }

  Client client_{Trees::ByScan, proto::Hello{proto::kProtocolVersion, "client", "test"},
                 Lanes::Yes};
  sys::TempDir directory_;
  std::string path_ = directory_.path() + "/file";
};

TEST_F(LaneTest, TakesUpWhereTheFramesEnded) {
  const std::string text((1 << 20) - 1, 'x');
  const uint32_t put = begin();
  const Bytes start = head(static_cast<uint32_t>(text.size()));
  client_.send_data(put, ByteView(start).first(10));
  const sys::Fd lane = client_.open_lane(put);
  sys::write_all(lane.get(), ByteView(start).subspan(10));
  sys::write_all(lane.get(), as_bytes(text));
  sys::write_all(lane.get(), tail());
  EXPECT_EQ(client_.finish(put).copied, (proto::CopyResult{1, text.size(), 0}));
  EXPECT_TRUE(content() == text);
  EXPECT_EQ(files(), 1U);
}

TEST_F(LaneTest, ThatEndsEarlyLeavesTheOldFile) {
  const uint32_t put = begin();
  sys::Fd lane = client_.open_lane(put);
  sys::write_all(lane.get(), head(1 << 20));
  sys::write_all(lane.get(), Bytes(700'000));
  client_.settle([&] { return files() == 2; });  // it is being written
  lane.reset();
  EXPECT_EQ(client_.finish(put).error.value().message, "the copy's data ended early");
  expect_old();
}

TEST_F(LaneTest, OfAClientThatIsKilledLeavesTheOldFile) {
  const uint32_t put = begin();
  const sys::Fd lane = client_.open_lane(put);
  sys::write_all(lane.get(), head(1 << 20));
  client_.settle([&] { return files() == 2; });
  // The sandbox process tells of a client that has gone.
  client_.send(put, FrameType::Cancel);
  EXPECT_EQ(client_.finish(put).error.value().message, "the copy was cancelled");
  client_.ping();
  expect_old();
}

TEST_F(LaneTest, EndsWithTheConnection) {
  const uint32_t put = begin();
  const sys::Fd lane = client_.open_lane(put);
  sys::write_all(lane.get(), head(1 << 20));
  client_.settle([&] { return files() == 2; });
  client_.hang_up();
  expect_old();
}

TEST_F(LaneTest, TakesOneConnection) {
  const uint32_t put = begin();
  const sys::Fd lane = client_.open_lane(put);
  const std::string port = std::to_string(client_.outcome(put).lane.value());
  client_.settle([&] { return !sys::connect_unix(client_.lanes() + "/" + port); });
}

TEST_F(LaneTest, IsOpenedOnceAndTakesThePlaceOfFrames) {
  const uint32_t twice = begin();
  const sys::Fd lane = client_.open_lane(twice);
  client_.send(twice, FrameType::Eof);
  EXPECT_EQ(client_.finish(twice).error.value().kind, Kind::Invalid);
  const uint32_t both = begin();
  const sys::Fd other = client_.open_lane(both);
  client_.send_data(both, as_bytes("x"));
  EXPECT_EQ(client_.finish(both).error.value().kind, Kind::Invalid);
  expect_old();
}

TEST_F(LaneTest, AreSoManyAtOnce) {
  std::vector<uint32_t> puts;
  std::vector<sys::Fd> lanes;
  for (size_t i = 0; i < Put::kMaxLanes; ++i) {
    puts.push_back(begin());
    lanes.push_back(client_.open_lane(puts.back()));
  }
  const uint32_t surplus = begin();
  client_.send(surplus, FrameType::Eof);
  EXPECT_EQ(client_.finish(surplus).error.value().kind, Kind::Exhausted);
  // One that ends makes room.
  client_.send(puts.front(), FrameType::Cancel);
  client_.finish(puts.front());
  client_.ping();
  const uint32_t next = begin();
  lanes.push_back(client_.open_lane(next));
  expect_old();
}

TEST_F(LaneTest, RefusesGarbage) {
  const uint32_t put = begin();
  const sys::Fd lane = client_.open_lane(put);
  sys::write_all(lane.get(), Bytes(100, std::byte{0x77}));
  EXPECT_EQ(client_.finish(put).error.value().message, "the copy's data is malformed");
  expect_old();
}

// Content that is more, or less, than the header said.
TEST_F(LaneTest, TakesSizesForHints) {
  for (const size_t size : {size_t{0}, size_t{4097}, size_t{3} << 20}) {
    Bytes stream;
    Entry entry;
    entry.mode = 0600;
    entry.size = 2 << 20;
    proto::append_entry(stream, entry);
    for (size_t left = size; left > 0;) {
      const Bytes chunk(std::min(left, proto::kMaxChunk), std::byte{'y'});
      proto::append_chunk(stream, chunk);
      left -= chunk.size();
    }
    Writer(stream).bytes(tail());
    const uint32_t put = begin();
    const sys::Fd lane = client_.open_lane(put);
    sys::write_all(lane.get(), stream);
    EXPECT_EQ(client_.finish(put).copied, (proto::CopyResult{1, size, 0}));
    EXPECT_TRUE(content() == std::string(size, 'y'));
  }
}

}
