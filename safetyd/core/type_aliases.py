"""Common names of agents' tools, and the shipped types that they mean.

An alias must never permit more than a tool of that name should. Ambiguous names are therefore not
listed and need approval: `find` may delete, `patch` and `insert` may change remote data, and
`powershell` commands cannot be analysed.
"""

from collections.abc import Iterable, Mapping
from typing import Final

_NAMES: Final = {
    "run_shell": """bash bash_command exec exec_command execute_bash execute_command execute_shell
        execute_shell_command local_shell run_bash run_command run_in_terminal run_shell_command
        run_terminal_cmd run_terminal_command sh shell shell_command shell_exec terminal""",
    "read_file": """cat file_read fs_read get_file_contents head notebook_read open_file read
        read_files read_image read_many_files read_media_file read_multiple_files read_notebook
        read_pdf read_text_file tail view view_file view_image""",
    "list_files": """dir directory_tree file_search find_by_name find_files get_file_info glob
        glob_files list list_dir list_directory list_folder ls tree""",
    "search": """code_search codebase_search grep grep_search search_code search_codebase
        search_file_content search_files search_text""",
    "similarity_search": "search_memory semantic_search vector_search",
    "internal_analysis": "sequential_thinking think",
    "read_git": "git_blame git_show",
    "git_log": "git_history",
    "git_diff": "git_diff_staged git_diff_unstaged",
    "db_read": "describe_table list_tables read_query",
    "web_fetch": """browse browse_web browse_website curl_get fetch fetch_page fetch_url
        fetch_web_page get_url http_get read_page read_url read_url_content read_web_page
        requests_get scrape_page scrape_url url_fetch""",
    "web_search": """bing_search brave_search brave_web_search duckduckgo_search google_search
        google_web_search internet_search search_google search_internet search_web tavily_search""",
    "create_file": """create create_directory create_folder create_text_file file_create file_write
        make_directory mkdir new_file save_file touch write write_file write_files write_text_file
        write_to_file""",
    "edit_file": """append_to_file apply_diff apply_patch edit edit_files edit_notebook file_edit
        fs_write insert_content insert_edit_into_file modify_file multi_edit notebook_edit replace
        replace_file_content replace_in_file replace_string_in_file search_and_replace
        search_replace str_replace str_replace_based_edit_tool str_replace_editor text_editor
        update_file""",
    "delete_file": """delete delete_directory delete_files delete_folder remove remove_directory
        remove_file remove_files rm rmdir unlink""",
    "git_commit": "commit commit_changes git_add",
    "create_branch": "git_create_branch new_branch",
    "push": "git_push push_branch push_changes push_commits push_files",
    "create_pull_request": "create_merge_request create_pr open_pr open_pull_request",
    "merge": "git_merge merge_branch merge_pr merge_pull_request",
    "create_issue": "create_ticket file_issue new_issue open_issue",
    "comment": "add_comment add_issue_comment create_comment post_comment",
    "install_package": """apt_get_install apt_install brew_install cargo_install install
        install_dependencies install_packages npm_install pip_install uv_add""",
    "modify_config": "edit_config set_config update_config write_config",
    "modify_permissions": "chmod chown",
    "start_service": "start_server",
    "open_port": "expose_port",
    "deploy": "deploy_app deploy_service deploy_site",
    "publish": "npm_publish publish_package",
    "db_write": "db_execute delete_row execute_sql insert_row run_sql update_row write_query",
    "drop_database": "drop_db drop_table",
    "purchase": "buy make_payment make_purchase pay place_order",
    "send_email": "email forward_email mail reply_email reply_to_email send_mail",
    "send_message": "direct_message message send_dm send_sms send_text sms text_message",
    "post_chat": """discord_send_message post_message send_chat_message send_slack_message
        slack_post_message slack_send_message""",
    "post_social": "create_tweet post_tweet send_tweet tweet",
    "draft": "create_draft draft_email draft_message draft_reply",
    "memory_write": "add_memory remember save_memory store_memory",
    "write_state": "todo_write update_todos write_todos",
    "model_call": "call_llm call_model chat_completion llm_call",
    "click": """browser_click click_element double_click left_click long_press middle_click
        mouse_click puppeteer_click right_click tap triple_click""",
    "type": """browser_fill browser_type enter_text fill fill_field input_text keyboard_type
        puppeteer_fill type_text""",
    "key": "browser_press_key hotkey key_press keyboard_press press press_key",
    "scroll": "browser_scroll mouse_scroll scroll_down scroll_page scroll_up",
    "drag": "browser_drag drag_and_drop left_click_drag mouse_drag swipe",
    "wait": "browser_wait browser_wait_for sleep wait_for",
    "screenshot": """browser_screenshot browser_snapshot browser_take_screenshot capture_screen
        puppeteer_screenshot take_screenshot""",
    "open_app": "launch_app launch_application open_application",
    "navigate": """browser_back browser_goto browser_navigate browser_navigate_back go_back
        go_to_url goto navigate_to open_page open_tab open_url puppeteer_navigate visit visit_page
        visit_url""",
}

ALIASES: Final[Mapping[str, str]] = {
    name: type_ for type_, names in _NAMES.items() for name in names.split()
}


def written_together(names: Iterable[str]) -> dict[str, str]:
    """Map spellings without `_`, such as `webfetch`, to names of several words."""
    return {name.replace("_", ""): name for name in names if "_" in name}
