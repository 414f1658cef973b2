"""Kinematics of the arms, and scripted controllers of the robot that is judged."""
