"""The program: application, main window, commands, dialogs, theme."""
