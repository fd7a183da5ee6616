#include "mvm/image/tree.h"

namespace mvm::image {

// What a map entry costs beside its name, roughly: a red-black node and the allocator's header.
static constexpr uint64_t kEntryOverhead = 80;

bool keeps_xattr(std::string_view name) {
  return name.starts_with("user.") || name == "security.capability" ||
         name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

Tree::Tree() {
  Attributes attributes;
  attributes.permissions = 0755;
  add_node(Type::Directory, std::move(attributes));
}

std::optional<NodeId> Tree::child(NodeId directory, std::string_view name) const {
  const auto& children = nodes_[directory].children;
  const auto found = children.find(name);
  if (found == children.end()) return std::nullopt;
  return found->second;
}

NodeId Tree::add_node(Type type, Attributes attributes) {
  metadata_bytes_ += sizeof(Node);
  for (const auto& [name, value] : attributes.xattrs)
    metadata_bytes_ += kEntryOverhead + name.size() + value.size();
  Node& node = nodes_.emplace_back();
  node.type = type;
  node.attributes = std::move(attributes);
  return static_cast<NodeId>(nodes_.size() - 1);
}

void Tree::link(NodeId directory, std::string_view name, NodeId id) {
  Node& parent = nodes_[directory];
  const auto found = parent.children.find(name);
  if (found != parent.children.end()) {
    --nodes_[found->second].links;
    found->second = id;
  } else {
    parent.children.emplace(name, id);
    metadata_bytes_ += kEntryOverhead + name.size();
  }
  ++nodes_[id].links;
  if (nodes_[id].type == Type::Directory) nodes_[id].parent = directory;
}

}
